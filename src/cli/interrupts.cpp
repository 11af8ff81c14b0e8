#include "cli/interrupts.h"

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/event_stream.h"

namespace atl::cli {

Interrupts::Interrupts(TaskContext& parent, CommandContext& context, int patience)
    : context_(context),
      patience_(patience),
      work_cancel_(parent.cancel),
      work_context_{parent.loop, &work_cancel_},
      cleanup_context_{parent.loop, &cleanup_cancel_},
      api_(context.reactor, context.endpoint),
      scope_(parent) {
  scope_.spawn("signals", watch());
}

Task<> Interrupts::watch() {
  for (;;) {
    CO_TRY(const int signal, co_await context_.signals.next());
    if (count_++ == 0) {
      first_signal_ = signal;
    }
    if (count_ <= patience_) {
      forward_first();
    } else if (count_ == patience_ + 1) {
      work_cancel_.cancel();
    } else {
      cleanup_cancel_.cancel();
    }
  }
}

void Interrupts::attach(std::string sandbox_id, std::string context_id) {
  sandbox_id_ = std::move(sandbox_id);
  context_id_ = std::move(context_id);
  if (count_ > 0) {
    forward_first();
  }
}

void Interrupts::forward_first() {
  if (!context_id_.empty()) {
    scope_.spawn("forward signal",
                 forward(context_path(sandbox_id_, context_id_, "/signal"), first_signal_));
  }
}

Task<> Interrupts::forward(std::string path, int signal) {
  auto sent =
      co_await api_.call("POST", std::move(path), Json::object({{"signal", signal_name(signal)}}));
  // A process that has just ended cannot be signalled; its exit is on the way to us.
  if (!sent && !process_is_gone(sent.error()) && sent.error().code != Code::kCancelled) {
    context_.console.report(concat("the signal did not reach the command: ", sent.error().message),
                            "press Ctrl-C again to stop waiting for it");
  }
  co_return ok();
}

}  // namespace atl::cli
