// Who makes the next cell: a few at once, in the order they came.
//
// A create is work of the kernel under locks that all share (cgroups, networks, mounts). More at
// once than the machine has cores for only wait for each other there, in no order, and each takes
// the longer. So they wait here, in theirs. What is made ahead, and nobody waits for, lets
// everybody else pass: it begins when nobody else waits, and never has all places. Only after
// kMostPassing others it takes its turn, so that it cannot be kept from happening for ever.
//
//   const CreateTurns::Turn turn{turns, in_background};  // returns when it is the caller's
//
// Who has a turn must not wait for anybody who waits for one. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

namespace atl::node {

class CreateTurns {
 public:
  // At least two, so that one always is for those who wait.
  explicit CreateTurns(std::size_t at_once);
  CreateTurns(const CreateTurns&) = delete;
  CreateTurns& operator=(const CreateTurns&) = delete;

  class [[nodiscard]] Turn {
   public:
    Turn(CreateTurns& turns, bool in_background) : turns_(turns), in_background_(in_background) {
      turns_.begin(in_background_);
    }
    ~Turn() { turns_.end(in_background_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    CreateTurns& turns_;
    bool in_background_;
  };
  // For tests: how many wait.
  std::size_t waiting() const;

 private:
  struct Waiter {
    std::condition_variable called;
    bool has_turn = false;
  };

  void begin(bool in_background);
  void end(bool in_background);
  void call_next();
  void call(std::deque<Waiter*>& queue);

  const std::size_t at_once_;
  const std::size_t background_at_once_;
  mutable std::mutex mutex_;
  std::deque<Waiter*> foreground_;
  std::deque<Waiter*> background_;
  std::size_t running_ = 0;
  std::size_t running_in_background_ = 0;
  std::size_t passed_ = 0;  // the first of those in the background, by others
};

// As many as are worth it on this machine.
std::size_t creates_at_once();

}  // namespace atl::node
