#include "io/reactor.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <unordered_map>

namespace atl::io {

namespace asio = boost::asio;

// Timers live in a table of ours; Asio has one, set to some instant no later than the earliest.
// Most timers are deadlines that are cancelled long before they are due, so cancelling leaves
// Asio's alone: it may fire once for nothing, which is cheaper than two system calls per deadline.
struct Reactor::Impl {
  using Timers = std::map<std::pair<Instant, TimerId>, Callback>;

  void arm();
  void fire();

  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::steady_timer alarm{context};
  std::optional<Instant> alarm_at;
  Timers timers;
  std::unordered_map<TimerId, Timers::iterator> by_id;
  TimerId next_timer = 1;
};

void Reactor::Impl::arm() {
  if (timers.empty() || (alarm_at && *alarm_at <= timers.begin()->first.first)) {
    return;
  }
  alarm_at = timers.begin()->first.first;
  alarm.expires_at(*alarm_at);
  alarm.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      fire();
    }
  });
}

// Runs what is due now; what a callback adds waits for the next turn of the loop.
void Reactor::Impl::fire() {
  alarm_at.reset();
  const Instant now = std::chrono::steady_clock::now();
  while (!timers.empty() && timers.begin()->first.first <= now) {
    auto due = timers.extract(timers.begin());
    by_id.erase(due.key().second);
    due.mapped()();
  }
  arm();
}

Reactor::Reactor() : impl_(std::make_unique<Impl>()) {}
Reactor::~Reactor() = default;

Instant Reactor::now() const {
  return std::chrono::steady_clock::now();
}

void Reactor::post(Callback callback) {
  asio::post(impl_->context, std::move(callback));
}

Loop::TimerId Reactor::start_timer(Instant when, Callback callback) {
  const TimerId id = impl_->next_timer++;
  const auto added = impl_->timers.emplace(std::pair{when, id}, std::move(callback)).first;
  impl_->by_id.emplace(id, added);
  impl_->arm();
  return id;
}

void Reactor::cancel_timer(TimerId id) {
  const auto found = impl_->by_id.find(id);
  if (found != impl_->by_id.end()) {
    impl_->timers.erase(found->second);
    impl_->by_id.erase(found);
  }
}

void Reactor::run() {
  impl_->context.restart();
  impl_->context.run();
}

void Reactor::stop() {
  impl_->context.stop();
}

// Asio keeps completions alive after a cancel, so each armed wait has a token that outlives the
// watch: a completion whose token was withdrawn does nothing. Shared by the watch and the handler.
struct FdWatch::Impl {
  struct Armed {
    FdWatch* watch = nullptr;  // nullptr: the watch is gone
    Wait* waiter = nullptr;    // nullptr: withdrawn
  };

  Impl(asio::io_context& context, int fd) : descriptor(context, fd) {}

  asio::posix::stream_descriptor descriptor;
  std::shared_ptr<Armed> armed[2];
};

FdWatch::FdWatch(Reactor& reactor, int fd)
    : impl_(std::make_unique<Impl>(reactor.impl_->context, fd)) {}

FdWatch::~FdWatch() {
  for (auto& armed : impl_->armed) {
    if (armed) {
      CHECK(armed->waiter == nullptr);
      armed->watch = nullptr;
    }
  }
  impl_->descriptor.release();  // deregisters and cancels; the descriptor stays its owner's
}

void FdWatch::Wait::start(TaskContext&) {
  auto& impl = *watch_.impl_;
  auto& slot = impl.armed[static_cast<int>(direction_)];
  if (slot && slot->waiter == nullptr) {
    // An earlier wait was cancelled but is still queued in the reactor: take it over.
    slot->waiter = this;
    return;
  }
  CHECK(!slot);
  slot = std::make_shared<Impl::Armed>(Impl::Armed{&watch_, this});
  const auto type = direction_ == Direction::kReadable ? asio::posix::stream_descriptor::wait_read
                                                       : asio::posix::stream_descriptor::wait_write;
  impl.descriptor.async_wait(type, [armed = slot, index = static_cast<int>(direction_)](
                                       const boost::system::error_code& error) {
    if (armed->watch == nullptr) {
      return;
    }
    armed->watch->impl_->armed[index].reset();
    if (Wait* waiter = std::exchange(armed->waiter, nullptr)) {
      waiter->complete(error ? Result<>{fail(Code::kUnavailable, error.message())} : Result<>{});
    }
  });
}

void FdWatch::Wait::stop() {
  watch_.impl_->armed[static_cast<int>(direction_)]->waiter = nullptr;
}

}  // namespace atl::io
