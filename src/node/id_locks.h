// One operation at a time per cell, any number on different cells.
//
//   const IdLocks::Guard guard = locks.lock(id);
//
// Only the ids that somebody works on right now are in memory.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>

namespace atl::node {

class IdLocks {
 public:
  class [[nodiscard]] Guard {
   public:
    Guard(IdLocks& locks, std::string id) : locks_(locks), id_(std::move(id)) {}
    ~Guard() { locks_.unlock(id_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    IdLocks& locks_;
    std::string id_;
  };

  Guard lock(const std::string& id) {
    std::unique_lock lock{mutex_};
    freed_.wait(lock, [&] { return !held_.contains(id); });
    held_.insert(id);
    return Guard{*this, id};
  }

 private:
  void unlock(const std::string& id) {
    {
      const std::lock_guard guard{mutex_};
      held_.erase(id);
    }
    freed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable freed_;
  std::set<std::string> held_;
};

}  // namespace atl::node
