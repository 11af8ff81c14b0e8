// One thread that waits for cells to die.
//
// Every running cell's pidfd is in one epoll set under a ticket. When it becomes readable the
// ticket is taken out and handed to the callback, once, on the watch's thread. A ticket that was
// forgotten is never handed out afterwards, except when the callback is already running for it:
// the receiver checks under its own lock that the ticket is still the current one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/fd.h"

namespace atl::node {

class DeathWatch {
 public:
  using Ticket = std::uint64_t;
  using Callback = std::function<void(Ticket)>;

  static Result<std::unique_ptr<DeathWatch>> start(Callback on_death);
  ~DeathWatch();  // stops the thread
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  Result<> add(Ticket ticket, Fd pidfd);  // tickets are never reused
  void forget(Ticket ticket);

 private:
  DeathWatch(Fd epoll, Fd wake, Callback on_death);
  void run();
  bool take(Ticket ticket);

  Fd epoll_;
  Fd wake_;
  Callback on_death_;
  std::mutex mutex_;
  std::map<Ticket, Fd> pidfds_;
  std::jthread thread_;
};

}  // namespace atl::node
