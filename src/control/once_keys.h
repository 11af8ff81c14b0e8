// Requests that happen at most once per key and team within a day, whatever dies meanwhile.
//
// Whoever does such a request takes its turn first. The answer is recorded in the same transaction
// as what was made (store::ClaimKey); whoever comes later with the key gets it instead of a turn.
// Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/scope.h"
#include "control/store_access.h"

namespace atl::control {

class OnceKeys {
 public:
  OnceKeys(StoreAccess store, const WallClock& clock) : store_(store), clock_(clock) {}

  // The right to act with a key, until destroyed.
  class Turn {
   public:
    Turn() = default;
    Turn(OnceKeys& owner, std::string name);
    Turn(Turn&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), name_(std::move(other.name_)) {}
    Turn& operator=(Turn&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(name_, other.name_);
      return *this;
    }
    ~Turn();

   private:
    OnceKeys* owner_ = nullptr;
    std::string name_;
  };
  struct Entry {
    Turn turn;
    std::optional<std::string> remembered;  // what was answered the first time
  };
  // Waits for whoever acts with the key now. kInvalidArgument for an unusable key, kAlreadyExists
  // (reason "idempotency_conflict") when it was used for something else.
  Task<Entry> enter(std::string team_id, std::string key, std::string body_sha256);

 private:
  StoreAccess store_;
  const WallClock& clock_;
  std::map<std::string, std::shared_ptr<Event>> acting_;  // the event: the turn has ended
};

}  // namespace atl::control
