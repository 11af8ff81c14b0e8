// Interrupts: what Ctrl-C, SIGTERM and SIGHUP mean while a command works.
//
// Signals are counted. With patience 0 the first one cancels the work. With patience 1 the first is
// passed on to the process in the sandbox and the second cancels the work. One more cancels the
// cleanup too: a person who insists gets out. The work runs under work(), the cleanup under
// cleanup().
#pragma once

#include <csignal>
#include <string>

#include "base/scope.h"
#include "cli/api.h"
#include "cli/commands.h"

namespace atl::cli {

class Interrupts {
 public:
  Interrupts(TaskContext& parent, CommandContext& context, int patience);
  // Required before the end: it owns a task.
  Task<> finish() { return scope_.cancel_and_join(); }

  TaskContext& work() { return work_context_; }
  TaskContext& cleanup() { return cleanup_context_; }
  int count() const { return count_; }
  bool gave_up() const { return count_ > patience_; }
  int exit_status() const { return 128 + (first_signal_ == 0 ? SIGINT : first_signal_); }

  // From now on the first signal goes to this process; one that has come already goes now.
  void attach(std::string sandbox_id, std::string context_id);
  void detach() { context_id_.clear(); }

 private:
  Task<> watch();
  Task<> forward(std::string path, int signal);
  void forward_first();

  CommandContext& context_;
  int patience_;
  int count_ = 0;
  int first_signal_ = 0;
  std::string sandbox_id_;
  std::string context_id_;
  CancelState work_cancel_;
  CancelState cleanup_cancel_;
  TaskContext work_context_;
  TaskContext cleanup_context_;
  Api api_;
  Scope scope_;
};

}  // namespace atl::cli
