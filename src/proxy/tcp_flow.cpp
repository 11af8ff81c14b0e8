#include "proxy/tcp_flow.h"

#include "base/strings.h"
#include "proxy/approval.h"
#include "proxy/client_stream.h"
#include "proxy/first_bytes.h"
#include "proxy/flow_account.h"
#include "proxy/judge.h"
#include "proxy/limits.h"
#include "proxy/opener_lookup.h"
#include "proxy/refusal.h"
#include "proxy/relay.h"
#include "proxy/standing.h"

namespace atl::proxy {
namespace {

Verdict malformed(const Error& error) {
  return {.origin = "class",
          .rule = error.code == Code::kPermissionDenied ? "peer" : "malformed",
          .reason = error.message};
}

class TcpFlow final : public LiveFlow {
 public:
  TcpFlow(std::shared_ptr<SandboxSession> session, Fd client, Endpoint original,
          std::shared_ptr<FlowAccount> account)
      : session_(std::move(session)),
        machinery_(session_->machinery()),
        client_(machinery_.options.reactor, std::move(client)),
        account_(std::move(account)),
        place_(session_->allowance(), session_->team()),
        meter_(machinery_.options.reactor, session_->allowance(), session_->team(),
               account_->record),
        began_(machinery_.options.reactor.now()) {
    flow_.address = original.address;
    flow_.port = original.port;
  }

  Task<> run();

 private:
  void rules_changed(const egress::SandboxRules& rules) override;
  void cut(std::string reason) override;
  bool is_idle(Instant now) const override { return now - meter_.active_at() > kIdleTime; }

  Task<> serve();
  Task<bool> relay(Verdict verdict);  // false: more is known, so judge anew
  // What is over soon, or rare, is not made part of the frame of every connection that is relayed.
  [[gnu::noinline]] Task<bool> settle(Verdict verdict);
  [[gnu::noinline]] Task<> hand_over(Handling handling);
  [[gnu::noinline]] Task<std::string> held_back_bytes();
  [[gnu::noinline]] Task<> refuse(Verdict verdict);
  [[gnu::noinline]] Task<bool> look(Duration silence);  // false: it was refused
  Result<> name_flow();
  void deny(const Verdict& verdict);
  std::optional<Verdict> closed_class();
  void finish(const Result<>& result);

  egress::FlowRecord& record() { return account_->record; }
  const egress::Classified* contents() const { return first_.known ? &first_.contents : nullptr; }

  std::shared_ptr<SandboxSession> session_;
  Machinery& machinery_;
  Socket client_;
  std::shared_ptr<FlowAccount> account_;  // shared with handlers and the lookup of the opener
  Place place_;
  Meter meter_;
  Instant began_;
  egress::Flow flow_;
  FirstBytes first_;
  std::string dialled_name_;
  std::string approved_;  // the rule that somebody said yes to, or is being asked about
  std::optional<egress::UpstreamProxy> through_;
  bool peer_ = false;
  bool looked_ = false;  // a rule wanted to know the contents
  bool judged_ = false;
  bool handed_over_ = false;
  Handling handling_ = Handling::kRelay;       // when it was handed over
  std::optional<egress::Binding> credential_;  // that its handler logs in with
  bool connected_ = false;
  bool cut_ = false;
  CancelState* cancel_ = nullptr;  // while it is served
};

Task<> TcpFlow::run() {
  machinery_.instruments.connections.add(1);
  session_->add(*this);
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel};
  cancel_ = &cancel;
  Result<> result = co_await serve().under(inner);
  cancel_ = nullptr;
  session_->remove(*this);
  machinery_.instruments.connections.add(-1);
  if (cut_) {
    client_.reset_on_close();
  }
  finish(result);
  co_return ok();
}

void TcpFlow::finish(const Result<>& result) {
  record().duration_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                             machinery_.options.reactor.now() - began_)
                             .count();
  if (record().outcome == egress::Outcome::kOpen) {
    const bool failed = !result && !connected_ && !handed_over_ && !cut_;
    record().outcome = failed ? egress::Outcome::kFailed : egress::Outcome::kAllowed;
    if (!result && record().reason.empty()) {
      record().reason = result.error().message;
    }
  }
}

// What begins as a protocol and breaks its rules is refused.
Task<bool> TcpFlow::look(Duration silence) {
  auto looked = co_await look_at(client_, meter_, silence, first_);
  if (!looked && looked.error().code == Code::kInvalidArgument) {
    CO_TRY_DO(co_await refuse(malformed(looked.error())));
    co_return false;
  }
  CO_TRY_DO(std::move(looked));
  co_return true;
}

Task<> TcpFlow::serve() {
  if (const auto closed = closed_class()) {
    co_return co_await refuse(*closed);
  }
  for (;;) {
    const egress::RulesPtr rules = session_->rules();
    // Who is asked wants to know as well, and reading on shows when the client hangs up.
    if (!looked_ && (wants_contents(*rules, flow_.port) ||
                     is_unasked(judge(*rules, flow_, nullptr), approved_))) {
      looked_ = true;
      CO_TRY(const bool sound, co_await look(kSilence));
      if (!sound) {
        co_return ok();
      }
      if (first_.ended) {
        co_return fail(Code::kUnavailable, "the client closed the connection before it spoke");
      }
    }
    if (auto named = name_flow(); !named) {
      co_return co_await refuse(malformed(named.error()));
    }
    Verdict verdict = judge(*rules, flow_, contents());
    judged_ = true;
    CO_TRY(const bool allowed, co_await settle(verdict));
    if (!allowed) {
      co_return ok();
    }
    if (rules != session_->rules()) {
      continue;  // they changed while somebody was asked
    }
    if (verdict.handling != Handling::kRelay) {
      co_return co_await hand_over(verdict.handling);
    }
    CO_TRY(const bool over, co_await relay(std::move(verdict)));
    if (over) {
      co_return ok();
    }
  }
}

std::optional<Verdict> TcpFlow::closed_class() {
  if (const auto label = session_->peers().label_of(flow_.address)) {
    peer_ = true;
    record().kind = kPeerKind;
    flow_.name = concat(*label, kPeerSuffix);
    return std::nullopt;
  }
  auto refusal = machinery_.guard.refusal(flow_.address);
  if (!refusal) {
    return std::nullopt;
  }
  return Verdict{.origin = "class", .rule = "address-class", .reason = *std::move(refusal)};
}

// The name it is judged by: what it says itself, else what its address was resolved from.
Result<> TcpFlow::name_flow() {
  flow_.protocol = first_.contents.protocol;
  record().protocol = flow_.protocol;
  TRY(auto said, said_name(first_));
  if (!peer_) {
    flow_.name = said ? *std::move(said) : pinned_name(*session_, flow_);
  }
  record().name = flow_.name;
  if (!peer_ && peer_label(flow_.name)) {
    return fail(Code::kPermissionDenied, std::string{kPeerElsewhere});
  }
  return {};
}

void TcpFlow::deny(const Verdict& verdict) {
  record().outcome = egress::Outcome::kDenied;
  record().origin = verdict.origin;
  record().rule = verdict.rule;
  record().reason = verdict.reason;
}

Task<> TcpFlow::refuse(Verdict verdict) {
  deny(verdict);
  if (!first_.known && first_.bytes.empty()) {
    // Only to answer in its own protocol.
    (void)co_await look_at(client_, meter_, kRefusalPatience, first_);
    record().protocol = first_.contents.protocol;
  }
  co_return co_await send_refusal(client_, refusal_bytes(first_.contents, record()));
}

// True: it goes on, and the audit knows.
Task<bool> TcpFlow::settle(Verdict verdict) {
  if (is_unasked(verdict, approved_)) {
    approved_ = rule_key(verdict);  // new rules leave it alone while it waits
    const bool answers_first = flow_.protocol != egress::AppProtocol::kUnknown;
    CO_TRY(const bool approved,
           co_await ask_for(client_, answers_first, machinery_.options.approvals,
                            question_about(record(), verdict, flow_)));
    if (!approved) {
      approved_.clear();
      verdict.action = egress::Action::kDeny;
      verdict.reason = concat(verdict.reason, ", and nobody allowed it");
    }
  }
  if (verdict.action == egress::Action::kDeny) {
    CO_TRY_DO(co_await refuse(std::move(verdict)));
    co_return false;
  }
  const bool first_time = record().rule.empty();
  record().origin = verdict.origin;
  record().rule = verdict.rule;
  if (first_time) {
    machinery_.options.flows.record(record());
  }
  co_return true;
}

Task<bool> TcpFlow::relay(Verdict verdict) {
  const egress::RulesPtr rules = session_->rules();
  const auto* proxy = upstream_proxy(*rules);
  through_ = proxy != nullptr ? std::optional{*proxy} : std::nullopt;
  egress::Flow target = flow_;
  if (!verdict.by_name && !peer_) {
    target.name.clear();  // nobody decided on it: the address is what was allowed
  }
  dialled_name_ = target.name;
  auto dialled = co_await machinery_.dialer.connect(rules, std::move(target), account_, approved_);
  if (!dialled) {
    if (dialled.error().code == Code::kPermissionDenied) {
      verdict.reason = dialled.error().message;
      CO_TRY_DO(co_await refuse(std::move(verdict)));
      co_return true;
    }
    client_.reset_on_close();
    co_return fail(std::move(dialled).error());
  }
  if (rules != session_->rules()) {
    co_return false;  // it was dialled under rules that are gone
  }
  Socket upstream{machinery_.options.reactor, *std::move(dialled)};
  connected_ = true;
  Relay pair{{machinery_.pipes, machinery_.copy_buffer}, meter_, client_, upstream};
  if (!looked_) {
    pair.on_first_bytes([this](std::string_view bytes) { note_contents(record(), bytes); });
  }
  if (!looked_ || first_.known) {
    CO_TRY_DO(co_await pair.run(ready_bytes(std::exchange(first_.bytes, {}))));
    co_return true;
  }
  CO_TRY(const bool client_first, co_await client_speaks_first(client_, upstream));
  if (client_first) {
    CO_TRY(const bool sound, co_await look(kFirstBytesTime));
    connected_ = false;
    co_return first_.ended || !sound;
  }
  CO_TRY_DO(co_await pair.run(held_back_bytes()));
  co_return true;
}

// The server spoke first; what the client then says must leave everything as it was decided.
Task<std::string> TcpFlow::held_back_bytes() {
  CO_TRY_DO(co_await wait_readable(client_));
  auto looked = co_await look_at(client_, meter_, kFirstBytesTime, first_);
  if (looked && first_.ended) {
    co_return std::string{};
  }
  if (looked) {
    looked = name_flow();
  }
  if (!looked) {
    const Code code = looked.error().code;
    if (code == Code::kInvalidArgument || code == Code::kPermissionDenied) {
      deny(malformed(looked.error()));
    }
    co_return fail(std::move(looked).error());
  }
  Verdict verdict = judge(*session_->rules(), flow_, contents());
  const bool other_way =
      verdict.handling != Handling::kRelay || (verdict.by_name && flow_.name != dialled_name_);
  if (verdict.action == egress::Action::kDeny || other_way || is_unasked(verdict, approved_)) {
    if (verdict.action != egress::Action::kDeny) {
      verdict.reason = "its server spoke first, and what it then said has rules of its own";
    }
    deny(verdict);
    co_return fail(Code::kPermissionDenied, verdict.reason);
  }
  co_return std::exchange(first_.bytes, {});
}

Task<> TcpFlow::hand_over(Handling handling) {
  const ConnectionHandler& serve_it = handler_of(machinery_.options.handlers, handling);
  if (!serve_it) {
    co_return co_await refuse({.origin = record().origin,
                               .rule = record().rule,
                               .reason = "a rule looks into this protocol, which this server "
                                         "cannot take apart"});
  }
  handed_over_ = true;
  handling_ = handling;
  credential_ = credential_in_use(*session_->rules(), flow_, handling);
  const auto* proxy = upstream_proxy(*session_->rules());
  through_ = proxy != nullptr ? std::optional{*proxy} : std::nullopt;
  Connection connection{
      .client = std::make_unique<ClientStream>(client_, meter_, std::exchange(first_.bytes, {})),
      .flow = flow_,
      .first = first_.contents,
      .session = session_,
      .account = account_};
  co_return co_await serve_it(machinery_.surroundings, std::move(connection));
}

void TcpFlow::rules_changed(const egress::SandboxRules& rules) {
  if (!judged_ || cut_ || record().outcome == egress::Outcome::kDenied) {
    return;
  }
  const Standing standing{.flow = flow_,
                          .contents = contents(),
                          .dialled = record().dialled,
                          .approved = approved_,
                          .through = through_,
                          .credential = credential_,
                          .handling = handling_,
                          .is_peer = peer_,
                          .was_looked_at = looked_,
                          .is_connected = connected_,
                          .is_handed_over = handed_over_};
  const auto reason = cut_by(rules, standing, machinery_.options.peers);
  if (!reason) {
    return;
  }
  deny(*reason);
  machinery_.instruments.cut.add();
  cut(record().reason);
}

void TcpFlow::cut(std::string reason) {
  if (cut_ || cancel_ == nullptr) {
    return;
  }
  cut_ = true;
  if (record().reason.empty()) {
    record().reason = std::move(reason);
  }
  cancel_->cancel();
}

}  // namespace

Task<> serve_tcp(std::shared_ptr<SandboxSession> session, Fd client, Endpoint source,
                 Endpoint original) {
  Machinery& machinery = session->machinery();
  const auto account = open_account(*session, egress::Transport::kTcp, source, original);
  OpenerLookup opener{*session, account, egress::Transport::kTcp, source.port};
  {
    // Its socket and its place go before the record waits for who opened it.
    TcpFlow flow{session, std::move(client), original, account};
    CO_TRY_DO(co_await flow.run());
  }
  CO_TRY_DO(co_await opener.settle());
  machinery.instruments.count(account->record);
  machinery.options.flows.record(account->record);
  co_return ok();
}

}  // namespace atl::proxy
