#include "io/reactor.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <unordered_map>

namespace atl::io {

namespace asio = boost::asio;

struct Reactor::Impl {
  struct Timer {
    asio::steady_timer timer;
    Callback callback;
  };

  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::unordered_map<TimerId, std::unique_ptr<Timer>> timers;
  TimerId next_timer = 1;
};

Reactor::Reactor() : impl_(std::make_unique<Impl>()) {}
Reactor::~Reactor() = default;

Instant Reactor::now() const { return std::chrono::steady_clock::now(); }

void Reactor::post(Callback callback) { asio::post(impl_->context, std::move(callback)); }

Loop::TimerId Reactor::start_timer(Instant when, Callback callback) {
  const TimerId id = impl_->next_timer++;
  auto timer = std::make_unique<Impl::Timer>(
      Impl::Timer{asio::steady_timer{impl_->context, when}, std::move(callback)});
  timer->timer.async_wait([this, id](const boost::system::error_code&) {
    // A cancelled timer is no longer in the table: the table decides, not the error code, because
    // Asio may already have queued the completion when cancel_timer runs.
    const auto found = impl_->timers.find(id);
    if (found == impl_->timers.end()) {
      return;
    }
    auto fired = std::move(found->second);
    impl_->timers.erase(found);
    fired->callback();
  });
  impl_->timers.emplace(id, std::move(timer));
  return id;
}

void Reactor::cancel_timer(TimerId id) { impl_->timers.erase(id); }

void Reactor::run() {
  impl_->context.restart();
  impl_->context.run();
}

void Reactor::stop() { impl_->context.stop(); }

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
  const auto type = direction_ == Direction::kReadable
                        ? asio::posix::stream_descriptor::wait_read
                        : asio::posix::stream_descriptor::wait_write;
  impl.descriptor.async_wait(
      type, [armed = slot, index = static_cast<int>(direction_)](
                const boost::system::error_code& error) {
        if (armed->watch == nullptr) {
          return;
        }
        armed->watch->impl_->armed[index].reset();
        if (Wait* waiter = std::exchange(armed->waiter, nullptr)) {
          waiter->complete(error ? Result<>{fail(Code::kUnavailable, error.message())}
                                 : Result<>{});
        }
      });
}

void FdWatch::Wait::stop() { watch_.impl_->armed[static_cast<int>(direction_)]->waiter = nullptr; }

}  // namespace atl::io
