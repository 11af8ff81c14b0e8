// Lets one task at a time make what a key stands for; whoever comes meanwhile waits and then looks
// whether it is there. Many connections to a new name cost one certificate.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/task.h"

namespace atl::proxy::http {

class SingleFlight {
 public:
  // Held while the thing is made.
  class Turn {
   public:
    Turn(SingleFlight& owner, std::string key) : owner_(&owner), key_(std::move(key)) {}
    Turn(Turn&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), key_(std::move(other.key_)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (owner_ != nullptr) {
        const auto under_way = owner_->under_way_.extract(key_);
        under_way.mapped()->set();
      }
    }

   private:
    SingleFlight* owner_;
    std::string key_;
  };

  // Nothing: somebody else had the turn, which has ended. Look again.
  Task<std::optional<Turn>> begin(std::string key) {
    const auto found = under_way_.find(key);
    if (found != under_way_.end()) {
      const auto ended = found->second;
      CO_TRY_DO(co_await ended->wait());
      co_return std::optional<Turn>{};
    }
    under_way_.emplace(key, std::make_shared<Event>());
    co_return std::optional<Turn>{std::in_place, *this, std::move(key)};
  }

 private:
  std::map<std::string, std::shared_ptr<Event>> under_way_;  // shared with those who wait
};

}  // namespace atl::proxy::http
