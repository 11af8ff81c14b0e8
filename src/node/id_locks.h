// One operation at a time per cell, volume and snapshot, any number on different ones.
//
//   const IdLocks::Guard guard = locks.lock(id);
//
// A snapshot is also read, by any number at once. Who needs both takes the id's lock first, then
// the snapshot's, then no other. Only the ids that somebody works on right now are in memory.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
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
    held_[id] = kAlone;
    return Guard{*this, id};
  }
  // As one of those who only read.
  Guard lock_shared(const std::string& id) {
    std::unique_lock lock{mutex_};
    freed_.wait(lock, [&] {
      const auto found = held_.find(id);
      return found == held_.end() || found->second != kAlone;
    });
    ++held_[id];
    return Guard{*this, id};
  }

 private:
  static constexpr int kAlone = -1;

  void unlock(const std::string& id) {
    {
      const std::lock_guard guard{mutex_};
      const auto found = held_.find(id);
      if (found->second == kAlone || found->second == 1) {
        held_.erase(found);
      } else {
        --found->second;
      }
    }
    freed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable freed_;
  std::map<std::string, int> held_;  // how many read it, or kAlone
};

// The lock of a snapshot. No id of a cell or a volume is written like this.
inline std::string snapshot_lock_id(const std::string& snapshot) {
  return "snapshot " + snapshot;
}

}  // namespace atl::node
