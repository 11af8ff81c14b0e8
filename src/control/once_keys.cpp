#include "control/once_keys.h"

#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {

OnceKeys::Turn::Turn(OnceKeys& owner, std::string name) : owner_(&owner), name_(std::move(name)) {
  owner_->acting_.emplace(name_, std::make_shared<Event>());
}

OnceKeys::Turn::~Turn() {
  if (owner_ != nullptr) {
    const auto mine = owner_->acting_.extract(name_);
    mine.mapped()->set();
  }
}

Task<OnceKeys::Entry> OnceKeys::enter(std::string team_id, std::string key,
                                      std::string body_sha256) {
  if (key.empty() || key.size() > kMaxClaimKeyBytes) {
    co_return fail(Code::kInvalidArgument,
                   concat("an Idempotency-Key has 1 to ", kMaxClaimKeyBytes, " characters"));
  }
  const std::string name = concat(team_id, " ", key);
  for (auto other = acting_.find(name); other != acting_.end(); other = acting_.find(name)) {
    const auto ended = other->second;
    CO_TRY_DO(co_await ended->wait());
  }
  Entry entry{.turn = Turn{*this, name}};
  const UnixMillis now = clock_.now();
  CO_TRY(auto known, co_await store_.run([&](store::Store& store) {
    return store.find_claim_key(team_id, key, now);
  }));
  if (known && known->body_sha256 != body_sha256) {
    co_return fail(Code::kAlreadyExists,
                   "this Idempotency-Key was used for another request; choose a new one",
                   "idempotency_conflict");
  }
  if (known) {
    entry.remembered = std::move(known->answer);
  }
  co_return std::move(entry);
}

}  // namespace atl::control
