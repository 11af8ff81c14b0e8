// The smallest coroutine type that shows a compiler's bugs: lazy, symmetric transfer, one owner,
// and a counter of live non-trivial objects so that a double destruction is caught even without a
// sanitizer.
#pragma once
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#define REQUIRE(condition)                                                \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                       \
    }                                                                     \
  } while (false)

inline int live_objects = 0;

struct Tracked {  // owns memory: a double destruction is a double free
  std::unique_ptr<std::string> text;
  Tracked(const char* value = "x") : text(new std::string(value)) { ++live_objects; }
  Tracked(const Tracked& other) : text(new std::string(*other.text)) { ++live_objects; }
  Tracked(Tracked&& other) noexcept : text(std::move(other.text)) { ++live_objects; }
  Tracked& operator=(const Tracked& other) {
    text.reset(new std::string(*other.text));
    return *this;
  }
  Tracked& operator=(Tracked&&) noexcept = default;
  ~Tracked() { --live_objects; }
};

template <class T>
struct Task {
  struct promise_type {
    std::coroutine_handle<> continuation = std::noop_coroutine();
    std::optional<T> value;
    Task get_return_object() { return Task{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().continuation;
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    template <class U>
    void return_value(U&& result) { value.emplace(std::forward<U>(result)); }
    void unhandled_exception() { std::abort(); }
  };

  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }
  bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> parent) noexcept {
    handle_.promise().continuation = parent;
    return handle_;
  }
  T await_resume() { return std::move(*handle_.promise().value); }
  T run() {
    handle_.resume();
    REQUIRE(handle_.done());
    return std::move(*handle_.promise().value);
  }
  std::coroutine_handle<promise_type> handle_;
};

inline int finish() {
  REQUIRE(live_objects == 0);
  return 0;
}
