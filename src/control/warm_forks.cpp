#include "control/warm_forks.h"

#include <algorithm>

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {

struct WarmForks::Carried {
  CarriedInterpreter interpreter;
  std::shared_ptr<void> held;  // nobody executes in it
  std::shared_ptr<const CopiedInterpreter> copy;
};

// What is still to be revived, for a few tasks side by side.
struct WarmForks::Work {
  const std::vector<Sandbox>& children;
  std::vector<Carried>& all;
  std::size_t next = 0;  // child by child
};

Task<ClaimAnswer> WarmForks::fork(std::string team_id, std::string sandbox_id,
                                  ForkRequest request) {
  return shielded(fork_now(std::move(team_id), std::move(sandbox_id), std::move(request)));
}

Task<ClaimAnswer> WarmForks::fork_now(std::string team_id, std::string sandbox_id,
                                      ForkRequest request) {
  CO_TRY(const Sandbox parent, sandboxes_.get(team_id, sandbox_id));
  if (parent.status != SandboxStatus::kRunning) {
    co_return fail(Code::kFailedPrecondition,
                   concat("sandbox ", sandbox_id, " is ", status_name(parent.status),
                          "; its interpreters can be taken along while it runs"),
                   "sandbox_not_running");
  }
  std::vector<Carried> all;
  request.hooks.before_moment = [this, &all, team_id, sandbox_id] {
    return copy_all({team_id, sandbox_id}, all);
  };
  request.hooks.after_moment = [&all] {
    for (Carried& each : all) {
      each.held.reset();
    }
  };
  request.hooks.children_made = [this, start = request.start, &all](ClaimAnswer answer) {
    return finish(start, all, std::move(answer));
  };
  co_return co_await snapshots_.fork(std::move(team_id), std::move(sandbox_id), std::move(request));
}

// The children move until this is done, whatever was asked for: a process that stands still cannot
// be revived.
Task<ClaimAnswer> WarmForks::finish(bool start, std::vector<Carried>& all, ClaimAnswer answer) {
  CO_TRY_DO(co_await revive_all(answer.sandboxes, all));
  if (!start) {
    CO_TRY_DO(co_await pause_all(answer.sandboxes));
  }
  auto& interpreters = answer.interpreters.emplace();
  for (Carried& each : all) {
    interpreters.push_back(std::move(each.interpreter));
  }
  co_return std::move(answer);
}

// An image takes memory of the sandbox it is made in.
Task<std::uint64_t> WarmForks::free_memory(SandboxRef sandbox) {
  CO_TRY(const auto samples,
         co_await sandboxes_.usage(std::move(sandbox.team_id), std::move(sandbox.sandbox_id)));
  if (samples.empty() || samples.back().limits.memory_bytes == 0) {
    co_return kMaxCopyBytes;
  }
  const UsageSample& now = samples.back();
  const std::uint64_t used = now.working_set_bytes + kCopyMarginBytes;
  const std::uint64_t free = now.limits.memory_bytes > used ? now.limits.memory_bytes - used : 0;
  co_return std::clamp<std::uint64_t>(free, 1, kMaxCopyBytes);
}

Task<> WarmForks::copy_all(SandboxRef sandbox, std::vector<Carried>& all) {
  CO_TRY(const auto contexts, co_await contexts_.list(sandbox));
  for (const Context& context : contexts) {
    if (const auto alias = interpreter_alias(context.process); alias && context.process.running) {
      all.push_back({.interpreter = {.context_id = context.process.process_id, .alias = *alias}});
    }
  }
  CO_TRY(std::uint64_t free_bytes, co_await free_memory(sandbox));
  // All of them together are waited for so long, and each at least for a moment.
  Loop& loop = *(co_await current_context()).loop;
  const Instant idle_deadline = loop.now() + kIdleInterpreterWait;
  const Instant deadline = loop.now() + kAllCopiesTimeout;
  std::size_t tried = 0;
  for (Carried& each : all) {
    if (tried >= kMaxCarriedInterpreters) {
      each.interpreter.reason =
          concat("at most ", kMaxCarriedInterpreters, " interpreters are taken along");
      continue;
    }
    if (loop.now() >= deadline) {
      each.interpreter.reason = "copying those before it took too long";
      continue;
    }
    ++tried;
    const Duration wait = std::max<Duration>(idle_deadline - loop.now(), kShortInterpreterWait);
    CO_TRY_DO(co_await copy_one(sandbox, free_bytes, wait, deadline, each));
    if (each.copy) {
      free_bytes -= std::min(free_bytes - 1, each.interpreter.memory_bytes);
    }
  }
  co_return ok();
}

// Fails only when the caller is gone.
Task<> WarmForks::copy_one(SandboxRef sandbox, std::uint64_t free_bytes, Duration wait,
                           Instant deadline, Carried& carried) {
  CarriedInterpreter& interpreter = carried.interpreter;
  auto& interpreters = contexts_.interpreters();
  auto held = co_await interpreters.hold(sandbox, interpreter.context_id, wait);
  if (!held) {
    interpreter.reason = held.error().message;
    co_return ok();
  }
  carried.held = *std::move(held);
  Loop& loop = *(co_await current_context()).loop;
  const Duration left = std::max<Duration>(deadline - loop.now(), kShortInterpreterWait);
  auto copied =
      co_await with_deadline(left, interpreters.copy(sandbox, interpreter.context_id, free_bytes));
  if (!copied) {
    carried.held.reset();
    interpreter.reason = copied.error().message;
    LOG_INFO("interpreter not taken along", {"sandbox", sandbox.sandbox_id},
             {"context", interpreter.context_id}, {"error", copied.error()});
    co_return ok();
  }
  interpreter.memory_bytes = copied->image.memory_bytes;
  interpreter.carried = true;
  if (copied->threads > 0) {
    interpreter.note =
        concat(copied->threads, copied->threads == 1 ? " thread was" : " threads were",
               " left behind: only the one that executes is taken along");
  }
  carried.copy = std::make_shared<const CopiedInterpreter>(*std::move(copied));
  co_return ok();
}

Task<> WarmForks::revive_all(const std::vector<Sandbox>& children, std::vector<Carried>& all) {
  Work shared{children, all};
  Scope scope{co_await current_context()};
  for (std::size_t i = 0; i < std::min(children.size(), kMaxRevivalsAtOnce); ++i) {
    scope.spawn("revive", work(shared));
  }
  co_return co_await scope.join();
}

Task<> WarmForks::work(Work& work) {
  while (work.next < work.children.size()) {
    const Sandbox& child = work.children[work.next++];
    for (Carried& each : work.all) {
      if (!each.copy) {
        continue;
      }
      auto revived = co_await contexts_.interpreters().bring({child.team_id, child.id}, each.copy);
      if (!revived) {
        each.interpreter.carried = false;
        each.interpreter.reason = revived.error().message;
        each.interpreter.missing_in.push_back(child.id);
        LOG_WARN("interpreter not revived", {"sandbox", child.id},
                 {"context", each.interpreter.context_id}, {"error", revived.error()});
      }
    }
  }
  co_return ok();
}

Task<> WarmForks::pause_all(std::vector<Sandbox>& children) {
  Scope scope{co_await current_context()};
  for (Sandbox& child : children) {
    scope.spawn("pause", pause_one(child));
  }
  co_return co_await scope.join();
}

Task<> WarmForks::pause_one(Sandbox& child) {
  auto paused = co_await sandboxes_.pause(child.team_id, child.id, PauseMemory::kKeep);
  if (paused) {
    child = std::move(paused->sandbox);
  } else {
    // It is there and it is told, only not asleep.
    LOG_WARN("a fork could not be paused", {"sandbox", child.id}, {"error", paused.error()});
  }
  co_return ok();
}

}  // namespace atl::control
