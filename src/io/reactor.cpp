#include "io/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <mutex>
#include <thread>

#include "base/log_gather.h"
#include "io/timer_queue.h"

namespace atl::io {
namespace {

constexpr std::size_t kEventsPerTurn = 128;
// Tasks wake each other through posts; so many rounds of that pass before the kernel is asked
// again.
constexpr unsigned kRoundsPerTurn = 4;

// In whole milliseconds, never too early.
int timeout_until(Instant when) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Instant::clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

// What an event leads to.
class Watched {
 public:
  // The receiver may be destroyed meanwhile; then it has taken itself out of the event.
  virtual void deliver(epoll_event& event) = 0;

 protected:
  ~Watched() = default;
};

}  // namespace

struct Reactor::Impl {
  Impl();
  void run_ready();
  void take_posted();
  void wait();

  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  Fd alarm{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  // another thread wants something
  std::atomic<std::thread::id> runner;                 // whoever is in run()
  std::atomic<bool> stopped = false;
  std::vector<Callback> ready;
  std::vector<Callback> running;
  std::mutex mutex;
  std::vector<Callback> posted;  // by other threads
  TimerQueue timers;
  std::array<epoll_event, kEventsPerTurn> events{};
  std::span<epoll_event> undelivered;  // of this turn
};

// Interest in a descriptor is level-triggered and is given up lazily: a wait leaves it on, and it
// is turned off only when the kernel reports what nobody waits for. So a connection that is read
// again and again costs one epoll_ctl in its life.
struct FdWatch::Impl final : Watched {
  Impl(Reactor::Impl& its_reactor, int its_fd) : reactor(its_reactor), fd(its_fd) {}

  static std::uint32_t bit(std::size_t direction) { return direction == 0 ? EPOLLIN : EPOLLOUT; }
  void deliver(epoll_event& event) override;
  Result<> want(std::size_t direction);
  void drop(std::uint32_t reported);

  Reactor::Impl& reactor;
  const int fd;
  bool registered = false;
  std::uint32_t interest = 0;
  Wait* waiters[2] = {nullptr, nullptr};
};

Reactor::Impl::Impl() {
  CHECK(epoll && alarm);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  CHECK(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, alarm.get(), &event) == 0);
}

// What is posted meanwhile waits for the next round. A stop leaves the rest where it was.
void Reactor::Impl::run_ready() {
  running.swap(ready);
  std::size_t done = 0;
  while (done < running.size() && !stopped) {
    Callback callback = std::move(running[done++]);
    callback();
  }
  if (done < running.size()) {
    ready.insert(ready.begin(), std::move_iterator{running.begin() + static_cast<ptrdiff_t>(done)},
                 std::move_iterator{running.end()});
  }
  running.clear();
}

void Reactor::Impl::take_posted() {
  std::uint64_t ignored = 0;
  [[maybe_unused]] const auto got = ::read(alarm.get(), &ignored, sizeof ignored);
  std::vector<Callback> taken;
  {
    const std::lock_guard lock{mutex};
    taken.swap(posted);
  }
  ready.insert(ready.end(), std::move_iterator{taken.begin()}, std::move_iterator{taken.end()});
}

void Reactor::Impl::wait() {
  int timeout_ms = -1;
  if (!ready.empty()) {
    timeout_ms = 0;
  } else if (const auto earliest = timers.earliest()) {
    timeout_ms = timeout_until(*earliest);
  }
  log_flush();
  const int count = ::epoll_wait(epoll.get(), events.data(), kEventsPerTurn, timeout_ms);
  CHECK(count >= 0 || errno == EINTR);
  undelivered = std::span{events}.first(static_cast<std::size_t>(std::max(count, 0)));
  while (!undelivered.empty() && !stopped) {
    epoll_event& event = undelivered.front();
    if (event.data.ptr != nullptr) {
      static_cast<Watched*>(event.data.ptr)->deliver(event);
    } else {
      take_posted();  // or the watch is gone, and this is for nothing
    }
    undelivered = undelivered.subspan(1);
  }
  undelivered = {};  // whatever a stop left is reported again
}

// A waiter that goes on may destroy this watch.
void FdWatch::Impl::deliver(epoll_event& event) {
  const std::uint32_t reported = event.events;
  const bool is_broken = (reported & (EPOLLERR | EPOLLHUP)) != 0;
  for (std::size_t direction = 0; direction < 2; ++direction) {
    if (!is_broken && (reported & bit(direction)) == 0) {
      continue;
    }
    if (Wait* waiter = std::exchange(waiters[direction], nullptr)) {
      event.events &= ~bit(direction);
      waiter->complete({});
      if (event.data.ptr == nullptr) {
        return;
      }
    }
  }
  drop(event.events);
}

Result<> FdWatch::Impl::want(std::size_t direction) {
  if (registered && (interest & bit(direction)) != 0) {
    return {};
  }
  epoll_event event{.events = interest | bit(direction),
                    .data = {.ptr = static_cast<Watched*>(this)}};
  const int operation = registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (::epoll_ctl(reactor.epoll.get(), operation, fd, &event) != 0) {
    return fail(Code::kUnavailable, errno_error("watching a descriptor", errno).message);
  }
  registered = true;
  interest = event.events;
  return {};
}

// Nobody waited for these. Errors are reported whether one is interested or not, so a descriptor
// that is broken and that nobody waits for is let go.
void FdWatch::Impl::drop(std::uint32_t reported) {
  std::uint32_t wanted = interest;
  for (std::size_t direction = 0; direction < 2; ++direction) {
    if ((reported & bit(direction)) != 0 && waiters[direction] == nullptr) {
      wanted &= ~bit(direction);
    }
  }
  const bool is_idle = waiters[0] == nullptr && waiters[1] == nullptr;
  if (is_idle && (reported & (EPOLLERR | EPOLLHUP)) != 0) {
    wanted = 0;
  }
  if (wanted == interest) {
    return;
  }
  epoll_event event{.events = wanted, .data = {.ptr = static_cast<Watched*>(this)}};
  ::epoll_ctl(reactor.epoll.get(), wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, fd, &event);
  interest = wanted;
  registered = wanted != 0;
}

Reactor::Reactor() : impl_(std::make_unique<Impl>()) {}
Reactor::~Reactor() = default;

Instant Reactor::now() const {
  return std::chrono::steady_clock::now();
}

void Reactor::post(Callback callback) {
  if (impl_->runner.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    impl_->ready.push_back(std::move(callback));
    return;
  }
  bool first = false;
  {
    const std::lock_guard lock{impl_->mutex};
    first = impl_->posted.empty();
    impl_->posted.push_back(std::move(callback));
  }
  if (first) {
    ::eventfd_write(impl_->alarm.get(), 1);
  }
}

Loop::TimerId Reactor::start_timer(Instant when, Callback callback) {
  return impl_->timers.start(when, std::move(callback));
}

void Reactor::cancel_timer(TimerId id) {
  impl_->timers.cancel(id);
}

void Reactor::run() {
  impl_->stopped = false;
  impl_->runner = std::this_thread::get_id();
  while (!impl_->stopped) {
    for (unsigned round = 0; round < kRoundsPerTurn && !impl_->ready.empty(); ++round) {
      impl_->run_ready();
    }
    if (const auto earliest = impl_->timers.earliest(); earliest && !impl_->stopped) {
      if (const Instant now = this->now(); *earliest <= now) {
        impl_->timers.fire(now);
      }
    }
    if (!impl_->stopped) {
      impl_->wait();
    }
  }
  impl_->runner = std::thread::id{};
}

void Reactor::stop() {
  impl_->stopped = true;
  ::eventfd_write(impl_->alarm.get(), 1);
}

FdWatch::FdWatch(Reactor& reactor, int fd) : impl_(std::make_unique<Impl>(*reactor.impl_, fd)) {}

FdWatch::~FdWatch() {
  CHECK(impl_->waiters[0] == nullptr && impl_->waiters[1] == nullptr);
  if (!impl_->registered) {
    return;
  }
  // The descriptor stays its owner's.
  ::epoll_ctl(impl_->reactor.epoll.get(), EPOLL_CTL_DEL, impl_->fd, nullptr);
  for (epoll_event& event : impl_->reactor.undelivered) {
    if (event.data.ptr == static_cast<Watched*>(impl_.get())) {
      event.data.ptr = nullptr;
    }
  }
}

void FdWatch::Wait::start(TaskContext&) {
  const auto direction = static_cast<std::size_t>(direction_);
  CHECK(watch_.impl_->waiters[direction] == nullptr);
  if (auto wanted = watch_.impl_->want(direction); !wanted) {
    complete(std::move(wanted));
    return;
  }
  watch_.impl_->waiters[direction] = this;
}

void FdWatch::Wait::stop() {
  watch_.impl_->waiters[static_cast<std::size_t>(direction_)] = nullptr;
}

}  // namespace atl::io
