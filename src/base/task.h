// Task<T>: a lazy coroutine that yields Result<T>.
//
//   Task<std::string> read_name(Stream& stream) {
//     CO_TRY(auto line, co_await read_line(stream));
//     co_return line;            // or: co_return fail(Code::kNotFound, "no name");
//   }
//
// A task starts when it is awaited, has one awaiter, and resumes it by symmetric transfer. It
// inherits its awaiter's TaskContext: the loop it runs on and the cancellation it listens to.
// A Task<void> ends with `co_return ok();`. An exception that escapes a task is a broken
// invariant. Tasks run only inside a Scope (scope.h), so every task has an owner.
#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "base/cancel.h"
#include "base/error.h"
#include "base/loop.h"

namespace atl {

class Trace;

// What a running task knows about where it runs, and for whom.
struct TaskContext {
  Loop* loop = nullptr;
  CancelState* cancel = nullptr;
  Trace* trace = nullptr;  // of the request it works for (base/trace.h)
};

inline Result<> ok() {
  return {};
}

template <class T>
class [[nodiscard]] Task;

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> continuation;
  TaskContext* context = nullptr;

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      return self.promise().continuation;
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
  [[noreturn]] void unhandled_exception() noexcept {
    check_failed("an exception escaped a task", __FILE__, __LINE__);
  }
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] Task {
 public:
  struct promise_type : detail::PromiseBase {
    std::optional<Result<T>> result;

    Task get_return_object() {
      return Task{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    template <class U>
    void return_value(U&& value) {
      result.emplace(std::forward<U>(value));
    }
    void return_value(Result<T>&& value) { result.emplace(std::move(value)); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&&) = delete;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (handle_) {
      handle_.destroy();
    }
  }

  struct Awaiter {
    std::coroutine_handle<promise_type> child;
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) noexcept {
      child.promise().continuation = parent;
      if (child.promise().context == nullptr) {
        child.promise().context = parent.promise().context;
      }
      return child;
    }
    Result<T> await_resume() { return *std::move(child.promise().result); }
  };
  Awaiter operator co_await() && { return Awaiter{handle_}; }

  // Runs the task under another context than its awaiter's (a deadline, a shield). The context
  // must outlive the task.
  Task&& under(TaskContext& context) && {
    handle_.promise().context = &context;
    return std::move(*this);
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// `TaskContext& here = co_await current_context();`
struct CurrentContext {
  TaskContext* context = nullptr;
  bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> self) noexcept {
    context = self.promise().context;
    return false;
  }
  TaskContext& await_resume() noexcept { return *context; }
};
inline CurrentContext current_context() {
  return {};
}

// The base of every leaf: suspends the task until `complete` is called or the task is cancelled.
// A subclass implements start() (begin waiting) and stop() (withdraw; called once, on
// cancellation; the leaf is then resumed with kCancelled). Loop thread only.
class Leaf : private CancelHook {
 public:
  bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> self) {
    return suspend(self, *self.promise().context);
  }
  Result<> await_resume() { return std::move(outcome_); }

 protected:
  Leaf() = default;
  ~Leaf() = default;
  virtual void start(TaskContext& context) = 0;
  virtual void stop() = 0;
  // Resumes the task at once. Only from the loop's own callbacks, never from inside other code:
  // the resumed task may destroy anything, also this leaf.
  void complete(Result<> outcome);
  // Resumes the task in a later turn of the loop; safe to call from anywhere on the loop thread.
  void complete_later(Result<> outcome);

 private:
  bool suspend(std::coroutine_handle<> self, TaskContext& context);
  void on_cancel() override;

  std::coroutine_handle<> waiter_;
  Loop* loop_ = nullptr;
  Result<> outcome_;
  bool starting_ = false;
};

// Suspends for a duration, or until an instant.
class Sleep final : public Leaf {
 public:
  explicit Sleep(Duration duration) : duration_(duration) {}

 private:
  void start(TaskContext& context) override;
  void stop() override { loop_->cancel_timer(timer_); }

  Duration duration_;
  Loop* loop_ = nullptr;
  Loop::TimerId timer_ = 0;
};
inline Sleep sleep_for(Duration duration) {
  return Sleep{duration};
}

// A flag that tasks of one loop can wait for. Waiters are resumed in a later turn of the loop, so
// set() is safe to call from anywhere on the loop thread.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { CHECK(first_ == nullptr); }

  bool is_set() const { return set_; }
  void set();
  void clear() { set_ = false; }

  class Wait final : public Leaf {
   public:
    explicit Wait(Event& event) : event_(event) {}

   private:
    friend class Event;
    void start(TaskContext& context) override;
    void stop() override;
    Event& event_;
    Wait* next_ = nullptr;
  };
  Wait wait() { return Wait{*this}; }

 private:
  bool set_ = false;
  Wait* first_ = nullptr;
};

}  // namespace atl
