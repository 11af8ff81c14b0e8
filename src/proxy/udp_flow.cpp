#include "proxy/udp_flow.h"

#include <cerrno>

#include "base/scope.h"
#include "base/strings.h"
#include "proxy/approval.h"
#include "proxy/flow_account.h"
#include "proxy/judge.h"
#include "proxy/opener_lookup.h"
#include "proxy/socket.h"

namespace atl::proxy {
namespace {

constexpr unsigned kMaxPerTurn = 32;

Result<Fd> connect_datagrams(const Endpoint& target) {
  Fd fd{::socket(target.address.is_v4() ? AF_INET : AF_INET6,
                 SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const SocketAddress address = socket_address(target);
  if (!fd || ::connect(fd.get(), address.get(), address.size) != 0) {
    return fail_errno(concat("sending datagrams to ", target.text()));
  }
  return fd;
}

bool takes_both_families(int socket) {
  int family = AF_INET6;
  socklen_t size = sizeof family;
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family == AF_INET6;
}

// The sandbox wrote to this address: answers come from there. Not connected to who wrote: the
// kernel's transparent proxying would then give what follows to this socket, which may not take it.
Result<> bind_to(int socket, const Endpoint& destination) {
  TRY_DO(allow_any_source(socket));
  const SocketAddress here = takes_both_families(socket) ? mapped_socket_address(destination)
                                                         : socket_address(destination);
  const int on = 1;
  // One address may be written to from many ports.
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket, here.get(), here.size) != 0) {
    return fail_errno(concat("answering from ", destination.text()));
  }
  return {};
}

class UdpFlow final : public LiveFlow {
 public:
  UdpFlow(SandboxSession& session, const UdpRelay::Key& key)
      : session_(session),
        machinery_(session.machinery()),
        key_(key),
        account_(open_account(session, egress::Transport::kUdp, key.source, key.destination)),
        place_(std::in_place, session.allowance(), session.team()),
        meter_(machinery_.options.reactor, session.allowance(), session.team(), account_->record),
        opener_(session, account_, egress::Transport::kUdp, key.source.port),
        began_(machinery_.options.reactor.now()) {
    flow_ = {.transport = egress::Transport::kUdp,
             .address = key.destination.address,
             .port = key.destination.port,
             .protocol = egress::AppProtocol::kUdp};
    flow_.name = pinned_name(session, flow_);
    record().name = flow_.name;
    record().protocol = flow_.protocol;
  }

  Task<bool> run(std::shared_ptr<UdpRelay::Waiting> waiting);

 private:
  void rules_changed(const egress::SandboxRules& rules) override;
  void cut(std::string reason) override;
  bool is_idle(Instant now) const override { return now - meter_.active_at() > kUdpIdleTime; }

  Task<> serve(std::shared_ptr<UdpRelay::Waiting> waiting);
  Task<> pump_in(Socket& upstream, Socket& client);
  Task<> pump_out(Socket& client, Socket& upstream);
  void send_out(Socket& upstream, std::string_view bytes);
  void count(Direction direction, std::size_t bytes, bool sent);
  Task<Endpoint> target(Verdict verdict);
  Verdict verdict();
  void deny(const Verdict& verdict);
  egress::FlowRecord& record() { return account_->record; }

  SandboxSession& session_;
  Machinery& machinery_;
  UdpRelay::Key key_;
  std::shared_ptr<FlowAccount> account_;  // shared with the lookup of the opener
  std::optional<Place> place_;
  Meter meter_;
  OpenerLookup opener_;
  Instant began_;
  egress::Flow flow_;
  std::string approved_;  // the rule that somebody said yes to, or is being asked about
  CancelState* cancel_ = nullptr;
};

void UdpFlow::deny(const Verdict& verdict) {
  record().outcome = egress::Outcome::kDenied;
  record().origin = verdict.origin;
  record().rule = verdict.rule;
  record().reason = verdict.reason;
}

Verdict UdpFlow::verdict() {
  const egress::SandboxRules& rules = *session_.rules();
  if (auto refusal = machinery_.guard.refusal(flow_.address)) {
    return {.origin = "class", .rule = "address-class", .reason = *std::move(refusal)};
  }
  if (upstream_proxy(rules) != nullptr) {
    return {.origin = "sandbox",
            .rule = "proxy",
            .reason = "everything goes through the upstream proxy, which takes no datagrams"};
  }
  const auto names = session_.pins().names(flow_.address, machinery_.options.reactor.now());
  return judge_datagrams(rules, flow_, names);
}

// The address that is written to, resolved by us when the name was decided on.
Task<Endpoint> UdpFlow::target(Verdict verdict) {
  if (!verdict.by_name) {
    co_return key_.destination;
  }
  CO_TRY(const auto addresses,
         co_await machinery_.resolver.addresses(flow_.name, !flow_.address.is_v4()));
  const auto rules = session_.rules();
  std::optional<Endpoint> chosen;
  for (const auto& address : addresses) {
    egress::Flow dialled = flow_;
    dialled.address = address;
    const Verdict there = decide_with_origin(*rules, dialled);
    const bool open = !machinery_.guard.refusal(address) && there.action != egress::Action::kDeny &&
                      !is_unasked(there, approved_);
    if (open && (!chosen || address == flow_.address)) {
      chosen = Endpoint{address, flow_.port};
    }
  }
  if (!chosen) {
    co_return fail(Code::kPermissionDenied, concat(flow_.name, " has no address that is open"));
  }
  co_return *chosen;
}

void UdpFlow::count(Direction direction, std::size_t bytes, bool sent) {
  if (!sent) {
    machinery_.instruments.datagrams_dropped.add();
    return;
  }
  meter_.moved(direction, bytes);
  (direction == Direction::kOut ? machinery_.instruments.datagrams_out
                                : machinery_.instruments.datagrams_in)
      .add();
}

// Datagrams beyond the bandwidth are lost, as they would be in a narrow line.
void UdpFlow::send_out(Socket& upstream, std::string_view bytes) {
  count(
      Direction::kOut, bytes.size(),
      meter_.allowed(Direction::kOut, 1) > 0 &&
          ::send(upstream.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0);
}

Task<> UdpFlow::pump_in(Socket& upstream, Socket& client) {
  const SocketAddress to = takes_both_families(client.fd.get()) ? mapped_socket_address(key_.source)
                                                                : socket_address(key_.source);
  const std::span<char> buffer = machinery_.copy_buffer;
  for (;;) {
    for (unsigned i = 0; i < kMaxPerTurn; ++i) {
      const ssize_t got = ::recv(upstream.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got < 0 && errno != ECONNREFUSED && errno != EINTR) {
        break;
      }
      if (got >= 0) {
        const auto size = static_cast<std::size_t>(got);
        count(Direction::kIn, size,
              meter_.allowed(Direction::kIn, 1) > 0 &&
                  ::sendto(client.fd.get(), buffer.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT,
                           to.get(), to.size) >= 0);
      }
    }
    CO_TRY_DO(co_await upstream.watch.readable());
  }
}

// What follows comes to the socket of all addresses, and here only where nothing stands before it.
Task<> UdpFlow::pump_out(Socket& client, Socket& upstream) {
  const std::span<char> buffer = machinery_.copy_buffer;
  for (;;) {
    for (unsigned i = 0; i < kMaxPerTurn; ++i) {
      SocketAddress from;
      const ssize_t got = ::recvfrom(client.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT,
                                     from.get(), &from.size);
      if (got < 0 && errno != ECONNREFUSED && errno != EINTR) {
        break;
      }
      if (got >= 0 && endpoint_of(from.storage) == key_.source) {
        send_out(upstream, {buffer.data(), static_cast<std::size_t>(got)});
      }
    }
    CO_TRY_DO(co_await client.watch.readable());
  }
}

Task<> UdpFlow::serve(std::shared_ptr<UdpRelay::Waiting> waiting) {
  Verdict judged = verdict();
  if (judged.action == egress::Action::kAsk) {
    approved_ = rule_key(judged);
    auto question = question_about(record(), judged, flow_);
    CO_TRY(const bool approved, co_await machinery_.options.approvals.ask(std::move(question)));
    judged.action = approved ? egress::Action::kAllow : egress::Action::kDeny;
    judged.reason = approved ? "" : concat(judged.reason, ", and nobody allowed it");
  }
  if (judged.action == egress::Action::kDeny) {
    deny(judged);
    co_return ok();
  }
  record().origin = judged.origin;
  record().rule = judged.rule;
  machinery_.options.flows.record(record());
  if (!machinery_.options.open_datagram_socket) {
    co_return fail(Code::kUnimplemented, "this server relays no datagrams");
  }
  CO_TRY(const Endpoint endpoint, co_await target(judged));
  CO_TRY(Fd outside, connect_datagrams(endpoint));
  record().dialled = endpoint.text();
  CO_TRY(Fd inside, co_await machinery_.options.open_datagram_socket(record().sandbox_id));
  CO_TRY_DO(bind_to(inside.get(), key_.destination));
  Socket upstream{machinery_.options.reactor, std::move(outside)};
  Socket client{machinery_.options.reactor, std::move(inside)};
  waiting->send = [this, &upstream](std::string_view bytes) { send_out(upstream, bytes); };
  for (const std::string& bytes : waiting->datagrams) {
    waiting->send(bytes);
  }
  waiting->datagrams.clear();
  Scope scope{co_await current_context()};
  scope.spawn("answers", pump_in(upstream, client));
  auto ended = co_await pump_out(client, upstream);
  waiting->send = nullptr;
  CO_TRY_DO(co_await scope.cancel_and_join());
  co_return std::move(ended);
}

Task<bool> UdpFlow::run(std::shared_ptr<UdpRelay::Waiting> waiting) {
  session_.add(*this);
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel};
  cancel_ = &cancel;
  auto result = co_await serve(std::move(waiting)).under(inner);
  cancel_ = nullptr;
  session_.remove(*this);
  place_.reset();
  CO_TRY_DO(co_await opener_.settle());
  record().duration_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                             machinery_.options.reactor.now() - began_)
                             .count();
  const bool denied = record().outcome == egress::Outcome::kDenied;
  if (!denied) {
    // Cancelled is how every association ends: idle, cut or with its sandbox.
    const bool failed = !result && result.error().code != Code::kCancelled;
    record().outcome = failed ? egress::Outcome::kFailed : egress::Outcome::kAllowed;
    record().reason = failed ? result.error().message : record().reason;
  }
  machinery_.instruments.count(record());
  machinery_.options.flows.record(record());
  co_return !denied && record().outcome == egress::Outcome::kAllowed;
}

void UdpFlow::rules_changed(const egress::SandboxRules&) {
  Verdict now = verdict();
  // Its own address may be invented: what it was connected to counts as well.
  const auto there = Endpoint::parse(record().dialled, flow_.port);
  if (there && now.action != egress::Action::kDeny) {
    egress::Flow dialled = flow_;
    dialled.address = there->address;
    if (auto at_address = decide_with_origin(*session_.rules(), dialled);
        at_address.action == egress::Action::kDeny || is_unasked(at_address, approved_)) {
      now = std::move(at_address);
    }
  }
  if (cancel_ == nullptr || (now.action != egress::Action::kDeny && !is_unasked(now, approved_))) {
    return;
  }
  deny(now);
  record().reason = concat("cut by new rules: ", now.reason);
  machinery_.instruments.cut.add();
  cancel_->cancel();
}

void UdpFlow::cut(std::string reason) {
  if (cancel_ != nullptr) {
    record().reason = record().reason.empty() ? std::move(reason) : record().reason;
    cancel_->cancel();
  }
}

}  // namespace

Task<bool> serve_udp(SandboxSession& session, UdpRelay::Key key,
                     std::shared_ptr<UdpRelay::Waiting> waiting) {
  UdpFlow flow{session, key};
  co_return co_await flow.run(std::move(waiting));
}

}  // namespace atl::proxy
