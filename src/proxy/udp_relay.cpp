#include "proxy/udp_relay.h"

#include "proxy/limits.h"
#include "proxy/udp_flow.h"

namespace atl::proxy {
namespace {
constexpr unsigned kMaxDatagramsPerTurn = 64;
static_assert(kCopyBytes >= kMaxDatagramBytes);
}  // namespace

Task<> UdpRelay::run(Fd socket) {
  CO_TRY_DO(report_destinations(socket.get()));
  io::FdWatch watch{session_.machinery().options.reactor, socket.get()};
  for (;;) {
    for (unsigned i = 0; i < kMaxDatagramsPerTurn; ++i) {
      CO_TRY(auto datagram, receive_datagram(socket.get(), session_.machinery().copy_buffer));
      if (!datagram) {
        break;
      }
      received(*std::move(datagram));
    }
    CO_TRY_DO(co_await watch.readable());
  }
}

bool UdpRelay::was_refused(const Key& key, Instant now) {
  if (refused_.size() >= kMaxRefusedAssociations) {
    std::erase_if(refused_, [&](const auto& entry) { return entry.second <= now; });
  }
  const auto found = refused_.find(key);
  return refused_.size() >= kMaxRefusedAssociations ||
         (found != refused_.end() && found->second > now);
}

void UdpRelay::received(Datagram datagram) {
  auto& machinery = session_.machinery();
  const Key key{datagram.source, datagram.destination};
  if (const auto found = associations_.find(key); found != associations_.end()) {
    Waiting& waiting = *found->second;
    if (waiting.send) {
      waiting.send(datagram.bytes);
    } else if (waiting.datagrams.size() < kMaxWaitingDatagrams) {
      waiting.datagrams.push_back(std::move(datagram.bytes));
    }
    return;
  }
  const Instant now = machinery.options.reactor.now();
  if (datagram.destination.port == 0 || associations_.size() >= kMaxAssociations ||
      session_.allowance()->is_full() || session_.team()->is_full() || was_refused(key, now)) {
    machinery.instruments.datagrams_dropped.add();
    return;
  }
  auto waiting = std::make_shared<Waiting>();
  waiting->datagrams.push_back(std::move(datagram.bytes));
  associations_.emplace(key, waiting);
  session_.spawn("datagrams", serve(key, std::move(waiting)));
}

Task<> UdpRelay::serve(Key key, std::shared_ptr<Waiting> waiting) {
  auto allowed = co_await serve_udp(session_, key, std::move(waiting));
  associations_.erase(key);
  if (!allowed || !*allowed) {
    refused_.insert_or_assign(key, session_.machinery().options.reactor.now() + kRefusedTime);
  }
  co_return ok();
}

}  // namespace atl::proxy
