// Progress: one line on the terminal for what takes longer than a second.
//
// While it lives it redraws its line on the error output; when it ends the line is erased. It draws
// nothing before kQuietPeriod, nothing when the error output is no terminal, nothing with -q.
//
//   Progress progress{co_await current_context(), console, quiet, [&] { return text; }};
//   … co_await slow_thing(); …
//   CO_TRY_DO(co_await progress.finish());   // required, as it owns a task
#pragma once

#include <functional>
#include <string>

#include "base/scope.h"
#include "cli/console.h"

namespace atl::cli {

class Progress {
 public:
  // Describes the present state in one short line; a spinner is put before it.
  using Describe = std::function<std::string()>;

  Progress(TaskContext& parent, const Console& console, bool quiet, Describe describe);
  Task<> finish();

 private:
  Task<> draw();

  const Console& console_;
  Describe describe_;
  bool drawn_ = false;
  Scope scope_;
};

// Runs `task` under a Progress.
template <class T>
Task<T> with_progress(const Console& console, bool quiet, Progress::Describe describe,
                      Task<T> task) {
  Progress progress{co_await current_context(), console, quiet, std::move(describe)};
  auto result = co_await std::move(task);
  (void)co_await progress.finish();
  co_return std::move(result);
}

// "[######----]  60%  1.2 GiB of 2.0 GiB  85.1 MiB/s"; without a total only what is done.
std::string describe_transfer(unsigned long long done, unsigned long long total,
                              double elapsed_seconds);

}  // namespace atl::cli
