#include "runtime/namespaces/cell_clone.h"

#include <sched.h>
#include <signal.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "base/log.h"
#include "runtime/namespaces/cell_init.h"
#include "runtime/namespaces/cell_report.h"
#include "runtime/namespaces/kernel_calls.h"
#include "runtime/namespaces/owner_identity.h"
#include "runtime/namespaces/process.h"

namespace atl::runtime::namespaces {
namespace {

// Only what is touched costs anything.
constexpr std::size_t kStackBytes = std::size_t{512} * 1024;

#if defined(__x86_64__)
constexpr bool kCanLend = true;

// The child runs on the stack that `arguments` name and never returns. Returns the child's pid, or
// the negative number of an error.
long clone3_onto_stack(clone_args* arguments, void (*run)(const CellPlan&), const CellPlan* plan) {
  long result = SYS_clone3;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %[plan], %%rdi\n\t"
      "call *%[run]\n\t"
      "ud2\n"
      "1:"
      : "+a"(result)
      : "D"(arguments), "S"(sizeof *arguments), [run] "r"(run), [plan] "r"(plan)
      : "rcx", "r11", "memory", "cc");
  return result;
}
#else
constexpr bool kCanLend = false;

long clone3_onto_stack(clone_args*, void (*)(const CellPlan&), const CellPlan*) {
  return -ENOSYS;
}
#endif

// Blocks every signal while the child is made: the node's handlers must not run in it.
class SignalBlock {
 public:
  SignalBlock() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalBlock() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

 private:
  sigset_t before_{};
};

Error clone_error(int error_number) {
  Error error = errno_error("making the cell's namespaces", error_number);
  if (error_number == ENOSPC || error_number == EUSERS) {
    error.message += " (raise user.max_user_namespaces, user.max_net_namespaces, ...)";
  } else if (error_number == EPERM || error_number == EINVAL) {
    error.message += " (the node must be root and the kernel built with all namespaces)";
  }
  return error;
}

clone_args make_arguments(const CellPlan& plan, const CgroupPlaces& places, int& pidfd) {
  clone_args arguments{};
  arguments.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD;
  arguments.flags |= CLONE_FILES;  // until the child's first step, see own_descriptors.cpp
  if (!plan.restore) {
    arguments.flags |= CLONE_NEWPID;  // else criu makes it
  }
  if (plan.resolver_file == nullptr) {
    arguments.flags |= CLONE_NEWNET;
  }
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  if (places.version2) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(places.version2.get());
  }
  // No exit signal: the node's other waits for children never see a cell.
  arguments.exit_signal = 0;
  return arguments;
}

}  // namespace

Child::~Child() {
  if (!pidfd_) {
    return;
  }
  auto ended = kill_process(pidfd_.get());
  if (ended) {
    ended = wait_until_dead(pidfd_.get());
  }
  if (!ended) {
    LOG_ERROR("a half-made cell does not end", {"pid", pid_}, {"error", ended.error()});
  }
}

CellClone::CellClone(const CellPlan& plan, const CgroupPlaces& places, std::uint32_t owner,
                     Fd child_channel)
    : plan_(plan), places_(places), owner_(owner), child_channel_(std::move(child_channel)) {}

Result<BegunCell> CellClone::begin(int channel, int timeout_ms) {
  return kCanLend && !plan_.restore ? begin_with_loan(channel, timeout_ms)
                                    : begin_with_copy(channel, timeout_ms);
}

Result<> CellClone::clone_with_copy() {
  clone_args arguments = make_arguments(plan_, places_, pidfd_);
  const SignalBlock block;
  OwnerIdentity identity;
  TRY_DO(identity.take(owner_));
  const long pid = clone3_call(&arguments);
  if (pid == 0) {
    run_cell_init(plan_);
  }
  const int error_number = errno;
  identity.give_back();
  if (pid < 0) {
    return fail(clone_error(error_number));
  }
  pid_ = static_cast<int>(pid);
  return {};
}

Result<BegunCell> CellClone::begin_with_copy(int channel, int timeout_ms) {
  TRY_DO(clone_with_copy());
  Child child{pid_, Fd{pidfd_}};
  TRY(Fd listener, wait_for_own_descriptors(channel, child.pidfd(), timeout_ms));
  child_channel_.reset();  // not before: it was the child's too
  return BegunCell{std::move(child), std::move(listener)};
}

void CellClone::clone_with_loan() {
  alignas(16) std::byte stack[kStackBytes];
  clone_args arguments = make_arguments(plan_, places_, pidfd_);
  arguments.flags |= CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID;
  arguments.parent_tid = reinterpret_cast<std::uint64_t>(&pid_);
  arguments.stack = reinterpret_cast<std::uint64_t>(stack);
  arguments.stack_size = sizeof stack;
  const SignalBlock block;
  OwnerIdentity identity;
  cloned_ = identity.take(owner_);
  if (cloned_) {
    const long pid = clone3_onto_stack(&arguments, run_cell_init, &plan_);
    if (pid < 0) {
      cloned_ = fail(clone_error(static_cast<int>(-pid)));
    }
    identity.give_back();
  }
  child_channel_.reset();
}

Result<BegunCell> CellClone::begin_with_loan(int channel, int timeout_ms) {
  try {
    sleeper_ = std::jthread{[this] { clone_with_loan(); }};
  } catch (const std::system_error& error) {  // too many threads: then without
    LOG_WARN("no thread for a cell's clone", {"error", error.what()});
    return begin_with_copy(channel, timeout_ms);
  }
  auto listener = wait_for_own_descriptors(channel, -1, timeout_ms);
  if (listener) {
    return BegunCell{Child{pid_, Fd{pidfd_}}, *std::move(listener)};
  }
  // Without a child there was nothing to wait for; one that did not get so far must not go on.
  if (pidfd_ >= 0) {
    [[maybe_unused]] const auto killed = kill_process(pidfd_);
  }
  sleeper_.join();
  if (!cloned_) {
    return fail(std::move(cloned_).error());
  }
  const Child child{pid_, Fd{pidfd_}};
  return fail(std::move(listener).error());
}

}  // namespace atl::runtime::namespaces
