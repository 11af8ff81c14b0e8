#include "guest/loop.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

namespace atl::guest {

Result<std::unique_ptr<Loop>> Loop::create() {
  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll) {
    return fail_errno("creating the event queue");
  }
  return std::unique_ptr<Loop>{new Loop{std::move(epoll)}};
}

Result<> Loop::run_once() {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
  if (count < 0) {
    if (errno == EINTR) {
      return {};
    }
    return fail_errno("waiting for events");
  }
  for (int i = 0; i < count; ++i) {
    // Copied: the kernel's struct is packed, so its members are not aligned.
    const epoll_event event = events[static_cast<std::size_t>(i)];
    const std::uint64_t token = event.data.u64;
    const std::uint32_t happened = event.events;
    const auto found = watches_.find(token);
    if (found != watches_.end() && !found->second->paused_) {
      found->second->handler_(happened);
    }
  }
  return {};
}

Result<> Watch::start(int fd, std::uint32_t events, Handler handler) {
  CHECK(!started());
  epoll_event event{};
  event.events = events;
  event.data.u64 = loop_.next_token_;
  if (::epoll_ctl(loop_.epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return fail_errno("watching a descriptor");
  }
  fd_ = fd;
  token_ = loop_.next_token_++;
  events_ = events;
  paused_ = false;
  handler_ = std::move(handler);
  loop_.watches_.emplace(token_, this);
  return {};
}

void Watch::modify(std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token_;
  CHECK(::epoll_ctl(loop_.epoll_.get(), EPOLL_CTL_MOD, fd_, &event) == 0);
}

void Watch::want(std::uint32_t events) {
  if (started() && (paused_ || events != events_)) {
    modify(events);
    events_ = events;
    paused_ = false;
  }
}

void Watch::pause() {
  if (started() && !paused_) {
    modify(EPOLLONESHOT);
    paused_ = true;
  }
}

void Watch::stop() {
  if (started()) {
    ::epoll_ctl(loop_.epoll_.get(), EPOLL_CTL_DEL, fd_, nullptr);
    loop_.watches_.erase(token_);
    fd_ = -1;
  }
}

}  // namespace atl::guest
