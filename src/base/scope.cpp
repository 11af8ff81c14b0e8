#include "base/scope.h"

#include "base/log.h"

namespace atl {

// The coroutine that owns a spawned task; it destroys itself when the task is done.
struct Scope::Driver {
  struct promise_type {
    TaskContext* context = nullptr;
    promise_type(Scope& scope, const char*, Task<>&) : context(&scope.context_) {}
    Driver get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    [[noreturn]] void unhandled_exception() noexcept {
      check_failed("an exception escaped a spawned task", __FILE__, __LINE__);
    }
  };
};

Scope::Scope(Loop& loop) : context_{&loop, &cancel_} {}

Scope::Scope(TaskContext& parent)
    : cancel_(parent.cancel), context_{parent.loop, &cancel_, parent.trace} {}

Scope::Driver Scope::drive(Scope& scope, const char* name, Task<> task) {
  Result<> result;
  {
    // The task's frame (and what it holds) is gone before the scope hears of its end.
    Task<> owned = std::move(task);
    result = co_await std::move(owned);
  }
  scope.finished(name, result);
}

void Scope::spawn(const char* name, Task<> task) {
  if (running_++ == 0) {
    idle_.clear();
  }
  drive(*this, name, std::move(task));
}

void Scope::finished(const char* name, const Result<>& result) {
  if (!result && result.error().code != Code::kCancelled) {
    if (on_error_) {
      on_error_(name, result.error());
    } else {
      LOG_WARN("task failed", {"task", name}, {"error", result.error()});
    }
  }
  if (--running_ == 0) {
    idle_.set();
  }
}

Task<> Scope::join() {
  // Joining must finish even when the joiner is cancelled, else children would outlive the scope;
  // the cancellation has reached them too, so they end.
  CancelState never;
  TaskContext unstoppable{context_.loop, &never};
  while (running_ > 0) {
    struct Waiter {
      static Task<> run(Event& event) { co_return co_await event.wait(); }
    };
    auto waited = co_await Waiter::run(idle_).under(unstoppable);
    CHECK(waited.has_value());
  }
  co_return ok();
}

Task<> Scope::cancel_and_join() {
  cancel();
  co_return co_await join();
}

namespace detail {

DeadlineTimer::DeadlineTimer(Loop& loop, Duration duration, CancelState& state)
    : loop_(loop), timer_(loop.start_timer(loop.now() + duration, [this, &state] {
        fired_ = true;
        state.cancel();
      })) {}

DeadlineTimer::~DeadlineTimer() {
  if (!fired_) {
    loop_.cancel_timer(timer_);
  }
}

}  // namespace detail
}  // namespace atl
