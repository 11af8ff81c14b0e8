#include "base/trace.h"

#include "base/strings.h"

namespace atl {
namespace {

constexpr std::array<std::string_view, kSteps> kStepNames{
    "read",  "auth",  "decode",  "admit", "pool",   "node", "network",
    "store", "ready", "connect", "spawn", "output", "exit", "encode"};
constexpr std::array<std::string_view, kOperations> kOperationNames{"other", "create", "exec"};

std::int64_t microseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

}  // namespace

std::string_view step_name(Step step) {
  return kStepNames[static_cast<std::size_t>(step)];
}

std::string_view operation_name(Operation operation) {
  return kOperationNames[static_cast<std::size_t>(operation)];
}

void Trace::mark(Step step, Instant now) {
  spent_[static_cast<std::size_t>(step)] += now - last_;
  marked_ |= 1U << static_cast<unsigned>(step);
  last_ = now;
}

std::string Trace::render() const {
  std::string text;
  for (std::size_t i = 0; i < kSteps; ++i) {
    if (has(static_cast<Step>(i))) {
      text += concat(kStepNames[i], ";us=", microseconds(spent_[i]), ", ");
    }
  }
  return concat(text, "total;us=", microseconds(last_ - begin_));
}

}  // namespace atl
