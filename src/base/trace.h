// Trace: where the time of one request went.
//
// A request has one Trace, found through the context of whatever task works for it. A mark says
// which step the time since the last mark belongs to, so the steps of a trace always add up to the
// time that has passed; a step that happens twice is counted together. Steps and operations are
// enumerated: a trace is a fixed array without an allocation, cheap enough to be always there.
// Steps of things that happen side by side share the time between them. Loop thread only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/task.h"

namespace atl {

enum class Step : std::uint8_t {
  kRead,     // the head of the request
  kAuth,     // whose it is
  kDecode,   // its body, read and judged
  kAdmit,    // what may be made, and of what
  kPool,     // a prepared cell was taken
  kNode,     // the node made a cell
  kNetwork,  // the boundary was attached
  kStore,    // rows were committed
  kReady,    // the sandbox was brought to run
  kConnect,  // to the guest
  kSpawn,    // the guest has started the program
  kOutput,   // the first bytes of its output
  kExit,     // its end
  kEncode,   // the answer was made
};
inline constexpr std::size_t kSteps = static_cast<std::size_t>(Step::kEncode) + 1;
std::string_view step_name(Step step);

// What the request turned out to be; the steps of these are kept as histograms.
enum class Operation : std::uint8_t { kOther, kCreate, kExec };
inline constexpr std::size_t kOperations = static_cast<std::size_t>(Operation::kExec) + 1;
std::string_view operation_name(Operation operation);

class Trace {
 public:
  explicit Trace(Instant begin) : begin_(begin), last_(begin) {}
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // The time since the last mark was spent on `step`.
  void mark(Step step, Instant now);
  bool has(Step step) const { return (marked_ >> static_cast<unsigned>(step) & 1U) != 0; }
  Duration spent(Step step) const { return spent_[static_cast<std::size_t>(step)]; }
  // The first one stays: a create that runs a command is a create.
  void is(Operation operation) {
    operation_ = operation_ == Operation::kOther ? operation : operation_;
  }
  Operation operation() const { return operation_; }
  // The client has asked for it and may know.
  void report() { reported_ = true; }
  bool reported() const { return reported_; }
  // "read;us=12, auth;us=3, total;us=15": the marked steps in the order of their list.
  std::string render() const;

 private:
  const Instant begin_;
  Instant last_;
  std::array<Duration, kSteps> spent_{};
  std::uint32_t marked_ = 0;
  Operation operation_ = Operation::kOther;
  bool reported_ = false;
};
static_assert(kSteps <= 32);

namespace detail {
class ForTrace {
 public:
  bool await_ready() noexcept { return false; }
  void await_resume() noexcept {}

 protected:
  template <class Promise>
  static TaskContext& context(std::coroutine_handle<Promise> self) noexcept {
    return *self.promise().context;
  }
};

class Marking final : public ForTrace {
 public:
  explicit Marking(Step step) : step_(step) {}
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> self) noexcept {
    const TaskContext& here = context(self);
    if (here.trace != nullptr) {
      here.trace->mark(step_, here.loop->now());
    }
    return false;
  }

 private:
  Step step_;
};

class Naming final : public ForTrace {
 public:
  explicit Naming(Operation operation) : operation_(operation) {}
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> self) noexcept {
    if (const TaskContext& here = context(self); here.trace != nullptr) {
      here.trace->is(operation_);
    }
    return false;
  }

 private:
  Operation operation_;
};
}  // namespace detail

// `co_await mark(Step::kStore);` in any task, traced or not. Does not suspend.
inline detail::Marking mark(Step step) {
  return detail::Marking{step};
}
// `co_await trace_as(Operation::kExec);`
inline detail::Naming trace_as(Operation operation) {
  return detail::Naming{operation};
}

}  // namespace atl
