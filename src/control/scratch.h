// Room for files that only pass through: uploads on their way in, layers on their way out.
//
// They lie beside the database and beside the disks of sandboxes, and neither may ever find the
// file system full. So all of them together have a budget, each team has a share of it, and nobody
// gets more while the file system has no more than its reserve left. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/scope.h"
#include "control/limits.h"

namespace atl::control {

class Scratch {
 public:
  struct Space {
    std::uint64_t total_bytes = 0;
    std::uint64_t free_bytes = 0;
  };
  using Look = std::function<Result<Space>()>;

  // On the file system of the directory.
  explicit Scratch(std::string directory);
  explicit Scratch(Look look) : look_(std::move(look)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // What one file takes, until this is destroyed. The budget outlives it.
  class Lease {
   public:
    Lease(Scratch& owner, std::string team_id) : owner_(owner), team_id_(std::move(team_id)) {}
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    // From now on at least so many, or kResourceExhausted.
    Result<> hold(std::uint64_t bytes);

   private:
    Scratch& owner_;
    std::string team_id_;
    std::uint64_t held_ = 0;
  };

  // Whether the team could have so many more.
  Result<> check(const std::string& team_id, std::uint64_t bytes) const;

  // For work whose files nobody counts: it is cancelled when the reserve is reached.
  template <class T>
  Task<T> while_room(Task<T> work) {
    CO_TRY_DO(check_reserve(0));
    TaskContext& outer = co_await current_context();
    CancelState stop{outer.cancel};
    TaskContext inner{outer.loop, &stop};
    Result<> room;
    Scope watching{outer};
    watching.spawn("scratch", watch(stop, room));
    auto done = co_await std::move(work).under(inner);
    (void)co_await watching.cancel_and_join();
    if (!done && !room) {
      co_return fail(std::move(room).error());
    }
    co_return std::move(done);
  }

 private:
  Result<> check_reserve(std::uint64_t bytes) const;
  Task<> watch(CancelState& stop, Result<>& room) const;

  Look look_;
  std::uint64_t held_ = 0;
  std::map<std::string, std::uint64_t> by_team_;
};

}  // namespace atl::control
