#include "control/trust.h"

#include <algorithm>

#include "base/log.h"
#include "control/guest_client.h"
#include "control/limits.h"
#include "tls/subject_hash.h"

namespace atl::control {
namespace {

bool stands_still(const Sandbox& sandbox) {
  return sandbox.status == SandboxStatus::kPaused;
}

}  // namespace

Task<> Trust::greet(Sandbox sandbox, egress::RulesPtr rules) {
  forget(sandbox.id);
  const KnownPointer known = want(sandbox, rules->needs_authority());
  co_return known == nullptr ? ok() : co_await settle(std::move(sandbox), known);
}

Task<> Trust::change(Sandbox sandbox, egress::RulesPtr rules) {
  const KnownPointer known = want(sandbox, rules->needs_authority());
  if (known == nullptr || stands_still(sandbox)) {
    co_return ok();
  }
  co_return co_await settle(std::move(sandbox), known);
}

void Trust::plan(const Sandbox& sandbox, const egress::RulesPtr& rules) {
  const KnownPointer known = want(sandbox, rules->needs_authority());
  if (known != nullptr && !known->fits()) {
    tell_soon(sandbox.id);
  }
}

Task<> Trust::wake(Sandbox sandbox) {
  const auto found = known_.find(sandbox.id);
  if (found == known_.end()) {
    co_return ok();
  }
  const KnownPointer known = found->second;
  co_return co_await settle(std::move(sandbox), known);
}

void Trust::forget(std::string_view sandbox_id) {
  if (const auto found = known_.find(sandbox_id); found != known_.end()) {
    known_.erase(found);
  }
}

// One that needs none is told so by its rules: nobody else asks for its authority.
void Trust::renew(const std::string& sandbox_id) {
  const auto found = known_.find(sandbox_id);
  if (found == known_.end() || found->second->has == Has::kNothing) {
    return;
  }
  found->second->renewed = true;
  found->second->has = Has::kSomething;
  tell_soon(sandbox_id);
}

// Null: nothing is installed and nothing needs to be. What is installed in one that an earlier
// process has left is not known, and may stay.
Trust::KnownPointer Trust::want(const Sandbox& sandbox, bool wanted) {
  auto found = known_.find(sandbox.id);
  if (found == known_.end()) {
    if (!wanted) {
      return nullptr;
    }
    found = known_.emplace(sandbox.id, std::make_shared<Known>()).first;
    found->second->team_id = sandbox.team_id;
  }
  found->second->wanted = wanted;
  return found->second;
}

void Trust::tell_soon(const std::string& id) {
  due_.insert(id);
  pending_.set();
}

void Trust::try_again_later(const std::string& id, Known& known, Instant now) {
  known.pause = known.pause == Duration::zero() ? parts_.first_pause
                                                : std::min(2 * known.pause, kLastTrustRetry);
  if (!known.waits) {
    known.waits = true;
    pauses_.insert({now + known.pause, id});
    failed_.set();
  }
}

// What it needs may change while it is told. It fits when this returns, or is tried again later.
Task<> Trust::settle(Sandbox sandbox, KnownPointer known) {
  while (known->busy) {
    known->told.clear();
    CO_TRY_DO(co_await known->told.wait());
  }
  known->busy = true;
  Result<> done;
  while (done && !known->fits()) {
    done = co_await tell(sandbox, *known);
  }
  known->busy = false;
  known->told.set();
  const auto found = known_.find(sandbox.id);
  if (found == known_.end() || found->second != known) {
    co_return ok();  // that cell is gone
  }
  if (done) {
    known->pause = Duration::zero();
    if (!known->wanted) {
      known_.erase(found);
    }
    co_return ok();
  }
  LOG_WARN(known->wanted ? "a sandbox does not trust its authority yet"
                         : "a sandbox still trusts its authority",
           {"sandbox", sandbox.id}, {"error", done.error()});
  try_again_later(sandbox.id, *known, (co_await current_context()).loop->now());
  co_return ok();
}

Task<> Trust::settle_as_it_is(std::string id) {
  const auto found = known_.find(id);
  if (found == known_.end()) {
    co_return ok();
  }
  const KnownPointer known = found->second;
  auto row = parts_.sandboxes.get(known->team_id, id);
  if (!row) {
    known_.erase(found);
    co_return ok();
  }
  if (stands_still(*row)) {
    co_return ok();  // wake() follows
  }
  co_return co_await settle(*std::move(row), known);
}

Task<> Trust::tell(const Sandbox& sandbox, Known& known) {
  const bool wanted = known.wanted;
  std::string certificate_pem;
  if (wanted) {
    CO_TRY(const auto authority,
           co_await with_deadline(kRulesTimeout, parts_.authorities.authority(sandbox.id)));
    certificate_pem = authority->certificate_pem;
  }
  known.renewed = false;
  known.has = Has::kSomething;
  CO_TRY_DO(co_await send(sandbox, std::move(certificate_pem)));
  known.has = !wanted ? Has::kNothing : known.renewed ? Has::kSomething : Has::kCurrent;
  co_return ok();
}

Task<> Trust::send(const Sandbox& sandbox, std::string certificate_pem) {
  guest::TrustRequest request{.certificate_pem = std::move(certificate_pem)};
  if (!request.certificate_pem.empty()) {
    CO_TRY(request.subject_hash, tls::subject_hash(request.certificate_pem));
  }
  request.user = parts_.sandboxes.templates().defaults(sandbox.template_name, sandbox.team_id).user;
  const GuestClient guest{parts_.reactor, parts_.guest_socket(sandbox.id)};
  co_return co_await guest.install_trust(std::move(request));
}

Task<> Trust::run() {
  Scope workers{co_await current_context()};
  for (std::size_t i = 0; i < kTrustWorkers; ++i) {
    workers.spawn("trust", work());
  }
  auto ended = co_await end_pauses();
  (void)co_await workers.cancel_and_join();
  co_return std::move(ended);
}

Task<> Trust::work() {
  for (;;) {
    while (due_.empty()) {
      pending_.clear();
      CO_TRY_DO(co_await pending_.wait());
    }
    std::string id = std::move(due_.extract(due_.begin()).value());
    CO_TRY_DO(co_await settle_as_it_is(std::move(id)));
  }
}

Task<> Trust::end_pauses() {
  Loop& loop = *(co_await current_context()).loop;
  for (;;) {
    while (pauses_.empty()) {
      failed_.clear();
      CO_TRY_DO(co_await failed_.wait());
    }
    const auto& [due, id] = *pauses_.begin();
    if (const Instant now = loop.now(); due > now) {
      // Somebody who fails meanwhile has no shorter pause than the first.
      CO_TRY_DO(co_await sleep_for(std::min<Duration>(due - now, parts_.first_pause)));
      continue;
    }
    if (const auto found = known_.find(id); found != known_.end()) {
      found->second->waits = false;
    }
    tell_soon(id);
    pauses_.erase(pauses_.begin());
  }
}

}  // namespace atl::control
