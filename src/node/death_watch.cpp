#include "node/death_watch.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/long_lived_fd.h"

namespace atl::node {
namespace {

constexpr DeathWatch::Ticket kWakeTicket = UINT64_MAX;

Result<> add_to_epoll(int epoll, int fd, DeathWatch::Ticket ticket) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = ticket;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    return fail_errno("watching a cell");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<DeathWatch>> DeathWatch::start(Callback on_death) {
  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  Fd wake{::eventfd(0, EFD_CLOEXEC)};
  if (!epoll || !wake) {
    return fail_errno("preparing to watch cells");
  }
  TRY_DO(add_to_epoll(epoll.get(), wake.get(), kWakeTicket));
  return std::unique_ptr<DeathWatch>{
      new DeathWatch{std::move(epoll), std::move(wake), std::move(on_death)}};
}

DeathWatch::DeathWatch(Fd epoll, Fd wake, Callback on_death)
    : epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      on_death_(std::move(on_death)),
      thread_([this] { run(); }) {}

DeathWatch::~DeathWatch() {
  const std::uint64_t one = 1;
  CHECK(::write(wake_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
}

Result<> DeathWatch::add(Ticket ticket, Fd pidfd) {
  pidfd = keep_long(std::move(pidfd));
  const std::lock_guard guard{mutex_};
  TRY_DO(add_to_epoll(epoll_.get(), pidfd.get(), ticket));
  CHECK(pidfds_.emplace(ticket, std::move(pidfd)).second);
  return {};
}

void DeathWatch::forget(Ticket ticket) {
  take(ticket);
}

bool DeathWatch::take(Ticket ticket) {
  const std::lock_guard guard{mutex_};
  const auto found = pidfds_.find(ticket);
  if (found == pidfds_.end()) {
    return false;
  }
  // Explicitly: closing alone would leave it in the set while a duplicate is open elsewhere.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.get(), nullptr);
  pidfds_.erase(found);
  return true;
}

void DeathWatch::run() {
  std::array<epoll_event, 64> events{};
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      const Ticket ticket = events[static_cast<std::size_t>(i)].data.u64;
      if (ticket == kWakeTicket) {
        return;
      }
      if (take(ticket)) {
        on_death_(ticket);
      }
    }
  }
}

}  // namespace atl::node
