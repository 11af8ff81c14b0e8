// Scope: the owner of running tasks.
//
// `spawn` is the only way to start a task that nobody awaits, and only a Scope has it. A scope
// must be joined before it is destroyed: `co_await scope.join()` waits for all children,
// `co_await scope.cancel_and_join()` cancels them first. A child's error that is not kCancelled is
// handed to the scope's error handler (default: logged). Loop thread only.
#pragma once

#include <functional>

#include "base/task.h"

namespace atl {

class Scope {
 public:
  using ErrorHandler = std::move_only_function<void(const char* task_name, const Error&)>;

  // A root scope of a loop (main's), or a scope inside a task: Scope{co_await current_context()}.
  explicit Scope(Loop& loop);
  explicit Scope(TaskContext& parent);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { CHECK(running_ == 0); }

  void on_error(ErrorHandler handler) { on_error_ = std::move(handler); }
  // `name` is a string literal; it shows in logs.
  void spawn(const char* name, Task<> task);
  void cancel() { cancel_.cancel(); }
  bool cancelled() const { return cancel_.cancelled(); }
  std::size_t running() const { return running_; }
  Task<> join();
  Task<> cancel_and_join();
  TaskContext& context() { return context_; }

 private:
  struct Driver;
  static Driver drive(Scope& scope, const char* name, Task<> task);
  void finished(const char* name, const Result<>& result);

  CancelState cancel_;
  TaskContext context_;
  std::size_t running_ = 0;
  Event idle_;
  ErrorHandler on_error_;
};

namespace detail {
// A timer that cancels a state; lives in the frame of with_deadline.
class DeadlineTimer {
 public:
  DeadlineTimer(Loop& loop, Duration duration, CancelState& state);
  ~DeadlineTimer();
  bool fired() const { return fired_; }

 private:
  Loop& loop_;
  bool fired_ = false;
  Loop::TimerId timer_;
};
}  // namespace detail

// Runs `task`, cancelling it after `duration`; its kCancelled then becomes kDeadlineExceeded.
template <class T>
Task<T> with_deadline(Duration duration, Task<T> task) {
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel, outer.trace};
  detail::DeadlineTimer timer{*outer.loop, duration, cancel};
  auto result = co_await std::move(task).under(inner);
  if (!result && result.error().code == Code::kCancelled && timer.fired()) {
    co_return fail(Code::kDeadlineExceeded, "took too long");
  }
  co_return std::move(result);
}

// Runs `task` so that cancellation of the caller does not reach it: for cleanup that must happen.
template <class T>
Task<T> shielded(Task<T> task) {
  TaskContext& outer = co_await current_context();
  CancelState never;
  TaskContext inner{outer.loop, &never, outer.trace};
  co_return co_await std::move(task).under(inner);
}

}  // namespace atl
