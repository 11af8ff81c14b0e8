#include "ingress/upstreams.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/strings.h"
#include "tls/stream.h"

namespace atl::ingress {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds{10};

}  // namespace

Task<Upstreams::Taken> Upstreams::take(UpstreamKey key, bool fresh) {
  drop_old();
  if (const auto found = parked_.find(key); found != parked_.end() && !fresh) {
    while (!found->second.empty()) {
      auto connection = std::move(found->second.back().connection);
      found->second.pop_back();
      --parked_count_;
      if (!connection->has_news()) {
        co_return Taken{std::move(connection), true};
      }
    }
  }
  CO_TRY(Fd fd, co_await connect_(key.team_id, key.sandbox_id, key.port));
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int number = fd.get();
  auto plain = std::make_unique<io::FdStream>(reactor_, std::move(fd));
  if (!key.secure) {
    co_return Taken{std::make_unique<http::ClientConnection>(std::move(plain), number, false)};
  }
  if (tls_ == nullptr) {
    co_return fail(Code::kUnavailable, "this server cannot speak TLS to services");
  }
  CO_TRY(auto secured,
         co_await with_deadline(kConnectTimeout,
                                tls::TlsStream::connect(std::move(plain), *tls_, "localhost")));
  co_return Taken{std::make_unique<http::ClientConnection>(std::move(secured), number, true)};
}

void Upstreams::park(const UpstreamKey& key, std::unique_ptr<http::ClientConnection> connection) {
  auto& line = parked_[key];
  if (parked_count_ >= kMaxParked || line.size() >= kMaxParkedPerKey) {
    return;
  }
  line.push_back({std::move(connection), reactor_.now()});
  ++parked_count_;
}

void Upstreams::drop_old() {
  const Instant oldest = reactor_.now() - kMaxParkedTime;
  for (auto line = parked_.begin(); line != parked_.end();) {
    while (!line->second.empty() && line->second.front().since < oldest) {
      line->second.pop_front();
      --parked_count_;
    }
    line = line->second.empty() ? parked_.erase(line) : std::next(line);
  }
}

}  // namespace atl::ingress
