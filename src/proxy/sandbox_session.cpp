#include "proxy/sandbox_session.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>

#include "base/log.h"
#include "base/strings.h"
#include "proxy/dns/listener.h"
#include "proxy/flow_account.h"
#include "proxy/limits.h"
#include "proxy/socket.h"
#include "proxy/tcp_flow.h"
#include "proxy/udp_relay.h"

namespace atl::proxy {
namespace {

constexpr std::chrono::milliseconds kNoDescriptorPause{100};

Task<> wait(Event& event) {
  co_return co_await event.wait();
}

}  // namespace

SandboxSession::SandboxSession(Machinery& machinery, egress::RulesPtr rules,
                               egress::Sockets sockets)
    : machinery_(machinery),
      rules_(std::move(rules)),
      sockets_(std::move(sockets)),
      allowance_(std::make_shared<Allowance>()),
      team_(machinery.teams.find(rules_->team_id)),
      datagrams_(std::make_unique<UdpRelay>(*this)) {
  apply_limits();
}

SandboxSession::~SandboxSession() = default;

void SandboxSession::apply_limits() {
  const egress::TrafficLimits& fallback = machinery_.options.default_limits;
  egress::TrafficLimits limits = rules_->sandbox_limits;
  const auto or_default = [](auto& value, auto other) { value = value == 0 ? other : value; };
  or_default(limits.connections, fallback.connections);
  or_default(limits.bytes_per_second_out, fallback.bytes_per_second_out);
  or_default(limits.bytes_per_second_in, fallback.bytes_per_second_in);
  or_default(limits.connections, kDefaultConnections);
  allowance_->set_limits(limits);
  team_->set_limits(rules_->team_limits);
}

void SandboxSession::set_rules(egress::RulesPtr rules) {
  rules_ = std::move(rules);
  apply_limits();
  // A flow that is cut ends in a later turn, so the set does not change under us.
  for (LiveFlow* flow : flows_) {
    flow->rules_changed(*rules_);
  }
}

Task<> SandboxSession::run() {
  const auto self = shared_from_this();
  Scope scope{co_await current_context()};
  scope_ = &scope;
  scope.on_error([this](const char* task, const Error& error) {
    LOG_WARN("a part of a sandbox's network has ended", {"sandbox", rules_->sandbox_id},
             {"part", task}, {"error", error});
  });
  machinery_.instruments.sandboxes.add(1);
  scope.spawn("accept", accept_loop());
  scope.spawn("sweep", sweep_loop());
  if (sockets_.dns) {
    scope.spawn("dns", dns::serve_datagrams(*this, std::move(sockets_.dns)));
  }
  if (sockets_.udp) {
    scope.spawn("udp", datagrams_->run(std::move(sockets_.udp)));
  }
  (void)co_await wait(over_);
  for (LiveFlow* flow : flows_) {
    flow->cut("the sandbox left the network");
  }
  auto joined = co_await scope.cancel_and_join();
  scope_ = nullptr;
  machinery_.instruments.sandboxes.add(-1);
  co_return joined;
}

Task<> SandboxSession::accept_loop() {
  Socket listener{machinery_.options.reactor, std::move(sockets_.tcp)};
  const int on = 1;
  ::setsockopt(listener.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // connections inherit
  unsigned accepted_now = 0;
  for (;;) {
    SocketAddress from;
    Fd fd{::accept4(listener.fd.get(), from.get(), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (fd) {
      accepted(std::move(fd), endpoint_of(from.storage));
      if (++accepted_now < kMaxAcceptsPerTurn) {
        continue;
      }
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // Others' connections end; what waits here stays in the kernel's queue.
      CO_TRY_DO(co_await sleep_for(kNoDescriptorPause));
      continue;
    } else if (errno == EINTR || errno == ECONNABORTED) {
      continue;
    } else if (errno != EAGAIN) {
      co_return fail_errno("accepting a sandbox's connection");
    }
    accepted_now = 0;
    CO_TRY_DO(co_await listener.watch.readable());
  }
}

void SandboxSession::accepted(Fd fd, const Endpoint& source) {
  if (allowance_->is_full() || team_->is_full()) {
    refuse_for_want_of_room(*this, std::move(fd), allowance_->is_full() ? "sandbox" : "team");
    return;
  }
  const auto original = local_endpoint(fd.get());
  if (!original) {
    return;  // it is gone already
  }
  // Whichever resolver it meant, it gets ours.
  if (original->port == dns::kDnsPort) {
    spawn("dns connection", dns::serve_connection(shared_from_this(), std::move(fd)));
    return;
  }
  spawn("connection", serve_tcp(shared_from_this(), std::move(fd), source, *original));
}

// Idle connections are found here instead of by a timer each.
Task<> SandboxSession::sweep_loop() {
  for (;;) {
    CO_TRY_DO(co_await sleep_for(kSweepEvery));
    const Instant now = machinery_.options.reactor.now();
    for (LiveFlow* flow : flows_) {
      if (flow->is_idle(now)) {
        flow->cut("nothing passed for too long");
      }
    }
  }
}

}  // namespace atl::proxy
