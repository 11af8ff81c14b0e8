#include "proxy/http/upstream_pool.h"

#include <poll.h>

#include <algorithm>

#include "base/strings.h"
#include "proxy/http/h1_server_side.h"
#include "proxy/http/h2_link.h"
#include "proxy/http/h2_sides.h"
#include "proxy/http/limits.h"
#include "proxy/http/memory.h"
#include "tls/stream.h"

namespace atl::proxy::http {
namespace {

bool is_quiet(const io::Stream& stream) {
  if (const auto* secured = dynamic_cast<const tls::TlsStream*>(&stream)) {
    return secured->is_quiet();
  }
  const auto* plain = dynamic_cast<const io::FdStream*>(&stream);
  pollfd state{plain != nullptr ? plain->fd() : -1, POLLIN, 0};
  return plain != nullptr && ::poll(&state, 1, 0) == 0;
}

// Whether the server has closed, or says something that nobody asked for.
Task<bool> has_news(io::Stream& stream) {
  if (auto* secured = dynamic_cast<tls::TlsStream*>(&stream)) {
    co_return co_await secured->has_news();
  }
  co_return !is_quiet(stream);
}

Task<> run_link(std::shared_ptr<H2Link> link, UpstreamPlace) {
  co_return co_await H2Link::run(std::move(link));
}

}  // namespace

UpstreamPool::UpstreamPool(Surroundings& surroundings, Memory& memory,
                           std::shared_ptr<Session> session, std::shared_ptr<FlowAccount> account,
                           Scope& background)
    : surroundings_(surroundings),
      memory_(memory),
      session_(std::move(session)),
      account_(std::move(account)),
      background_(background) {}

UpstreamPool::~UpstreamPool() = default;

void UpstreamPool::give_back(std::unique_ptr<H1Upstream> connection) {
  if (auto* secured = dynamic_cast<tls::TlsStream*>(connection->stream.get())) {
    secured->release_buffers();
  }
  connection->idle_since = surroundings_.reactor.now();
  idle_.push_back(std::move(connection));
  count_->freed.set();
}

std::unique_ptr<H1Upstream> UpstreamPool::take_newest(const std::string& key) {
  const auto oldest = surroundings_.reactor.now() - kUpstreamIdleTime;
  std::erase_if(idle_, [&](const auto& one) { return one->idle_since < oldest; });
  for (auto at = idle_.size(); at-- > 0;) {
    if (idle_[at]->key == key) {
      auto connection = std::move(idle_[at]);
      idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(at));
      return connection;
    }
  }
  return nullptr;
}

Task<std::unique_ptr<H1Upstream>> UpstreamPool::take_idle(std::string key) {
  while (auto connection = take_newest(key)) {
    CO_TRY(const bool spent, co_await has_news(*connection->stream));
    if (!spent) {
      co_return std::move(connection);
    }
  }
  co_return nullptr;
}

std::unique_ptr<ServerSide> UpstreamPool::share_link(const Route& route, const std::string& key) {
  for (const auto& link : links_) {
    if (!route.websocket && link->key() == key && link->takes_requests()) {
      return std::make_unique<H2ServerSide>(link, route.secure, false);
    }
  }
  return nullptr;
}

std::unique_ptr<ServerSide> UpstreamPool::take_ready(const Route& route) {
  const auto key = material_digest(route.identity.get());
  if (auto shared = share_link(route, key)) {
    return shared;
  }
  auto idle = take_newest(key);
  if (idle && !is_quiet(*idle->stream)) {
    idle_.push_back(std::move(idle));  // open() looks closer
  }
  return idle ? std::make_unique<H1ServerSide>(*this, std::move(idle)) : nullptr;
}

Task<> UpstreamPool::wait_for_place() {
  if (waiting_ >= kMaxWaitingRequests) {
    co_return fail(Code::kResourceExhausted, "too many requests wait for this server");
  }
  ++waiting_;
  count_->freed.clear();
  auto waited = co_await count_->freed.wait();
  --waiting_;
  co_return std::move(waited);
}

Task<std::unique_ptr<ServerSide>> UpstreamPool::open(Route route, bool fresh) {
  return with_deadline(kDialTime, find_or_dial(std::move(route), fresh));
}

Task<std::unique_ptr<ServerSide>> UpstreamPool::find_or_dial(Route route, bool fresh) {
  const auto key = material_digest(route.identity.get());
  for (;;) {
    if (!fresh) {
      if (auto shared = share_link(route, key)) {
        co_return std::move(shared);
      }
      CO_TRY(auto idle, co_await take_idle(key));
      if (idle) {
        co_return std::make_unique<H1ServerSide>(*this, std::move(idle));
      }
    }
    if (count_->live >= kMaxUpstreams && !idle_.empty()) {
      idle_.erase(idle_.begin());  // it is of no use here
    }
    if (count_->live < kMaxUpstreams) {
      co_return co_await dial(std::move(route), key, UpstreamPlace{count_});
    }
    CO_TRY_DO(co_await wait_for_place());
  }
}

Task<std::unique_ptr<ServerSide>> UpstreamPool::dial(Route route, std::string key,
                                                     UpstreamPlace place) {
  std::string protocol = !route.secure && route.prefers_http2 ? "h2" : "";
  if (!route.secure) {
    CO_TRY(auto stream, co_await surroundings_.upstreams.dial(session_, route.flow, account_));
    if (protocol == "h2") {
      co_return over_http2(route, std::move(stream), std::move(key), std::move(place));
    }
    co_return std::make_unique<H1ServerSide>(
        *this, std::make_unique<H1Upstream>(std::move(stream), std::move(key), std::move(place)));
  }
  const Offer first = route.websocket       ? Offer::kHttp1
                      : route.prefers_http2 ? Offer::kBoth
                      : only_http2_         ? Offer::kHttp2
                                            : Offer::kHttp1;
  auto secured = co_await secure(route, first, protocol);
  if (!secured && first == Offer::kHttp1 && !route.websocket &&
      secured.error().reason == "tls_no_protocol") {
    only_http2_ = true;
    secured = co_await secure(route, Offer::kHttp2, protocol);
  }
  CO_TRY(auto stream, std::move(secured));
  if (protocol == "h2") {
    co_return over_http2(route, std::move(stream), std::move(key), std::move(place));
  }
  co_return std::make_unique<H1ServerSide>(
      *this, std::make_unique<H1Upstream>(std::move(stream), std::move(key), std::move(place)));
}

Task<std::unique_ptr<io::Stream>> UpstreamPool::secure(const Route& route, Offer offer,
                                                       std::string& protocol) {
  CO_TRY(const auto context, co_await memory_.trust.context(surroundings_, offer, route.identity));
  CO_TRY(auto plain, co_await surroundings_.upstreams.dial(session_, route.flow, account_));
  const auto host = route.flow.name.empty() ? route.flow.address.text() : route.flow.name;
  CO_TRY(auto stream, co_await with_deadline(kHandshakeTime, tls::TlsStream::connect(
                                                                 std::move(plain), context, host)));
  protocol = stream->protocol();
  co_return std::move(stream);
}

std::unique_ptr<ServerSide> UpstreamPool::over_http2(const Route& route,
                                                     std::unique_ptr<io::Stream> stream,
                                                     std::string key, UpstreamPlace place) {
  std::erase_if(links_, [](const auto& link) { return !link->takes_requests(); });
  auto link = std::make_shared<H2Link>(H2Role::kClient, std::move(stream), std::move(key));
  background_.spawn("upstream http2", run_link(link, std::move(place)));
  links_.push_back(link);
  count_->freed.set();  // whoever waits may share it
  return std::make_unique<H2ServerSide>(std::move(link), route.secure, true);
}

}  // namespace atl::proxy::http
