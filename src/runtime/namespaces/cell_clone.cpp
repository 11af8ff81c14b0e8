#include "runtime/namespaces/cell_clone.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <system_error>
#include <utility>

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
constexpr std::size_t kGuardBytes = std::size_t{64} * 1024;  // a page everywhere
// For a thread that has only to be woken; whoever kills a child has waited for its death before.
constexpr std::chrono::seconds kReturnTime{5};

#if defined(__x86_64__)
constexpr bool kCanLend = true;

// The child runs on the stack that `arguments` name and never returns. Returns the child's pid, or
// the negative number of an error.
// `run` and `plan` are where the kernel leaves them alone.
long clone3_onto_stack(clone_args* arguments, void (*run)(const CellPlan&), const CellPlan* plan) {
  long result = SYS_clone3;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"  // the last frame of a backtrace
      "mov %%rdx, %%rdi\n\t"
      "call *%%rbx\n\t"
      "ud2\n"
      "1:"
      : "+a"(result)
      : "D"(arguments), "S"(sizeof *arguments), "b"(run), "d"(plan)
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

// The child's, with a guard below: what overflows it dies instead of writing into the node.
class ChildStack {
 public:
  static Result<ChildStack> make() {
    constexpr std::size_t kAll = kGuardBytes + kStackBytes;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    void* const all = ::mmap(nullptr, kAll, PROT_NONE, kFlags, -1, 0);
    if (all == MAP_FAILED) {
      return fail_errno("making the stack of a cell's child");
    }
    ChildStack stack{static_cast<std::byte*>(all)};
    if (::mprotect(stack.bottom(), kStackBytes, PROT_READ | PROT_WRITE) != 0) {
      return fail_errno("making the stack of a cell's child");
    }
    return stack;
  }
  ~ChildStack() {
    if (all_ != nullptr) {
      ::munmap(all_, kGuardBytes + kStackBytes);
    }
  }
  ChildStack(ChildStack&& other) noexcept : all_(std::exchange(other.all_, nullptr)) {}
  ChildStack& operator=(ChildStack&&) = delete;

  std::byte* bottom() const { return all_ + kGuardBytes; }

 private:
  explicit ChildStack(std::byte* all) : all_(all) {}

  std::byte* all_;
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

// The kernel writes `pidfd` before the child's first instruction, and it also does so for a clone
// that fails afterwards: it means something only when the clone is known to have succeeded.
clone_args make_arguments(const PlannedCell& cell, int& pidfd) {
  clone_args arguments{};
  arguments.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD;
  arguments.flags |= CLONE_FILES;  // until the child's first step, see own_descriptors.cpp
  if (!cell.plan.restore) {
    arguments.flags |= CLONE_NEWPID;  // else criu makes it
  }
  if (cell.plan.resolver_file == nullptr) {
    arguments.flags |= CLONE_NEWNET;
  }
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  if (cell.places.version2) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(cell.places.version2.get());
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

// Everything that the child and the thread that stands still for it use. Both may need it for
// longer than CellClone lives, so the thread shares it; whoever is last takes it down.
struct CellClone::Loan {
  Loan(std::shared_ptr<const PlannedCell> planned, Fd channel, ChildStack child_stack)
      : cell(std::move(planned)),
        child_channel(std::move(channel)),
        stack(std::move(child_stack)) {}
  // A child that nobody took does not live on.
  ~Loan() {
    if (made && !taken) {
      const Child child{pid, Fd{pidfd}};
    }
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Child take() {
    taken = true;
    return Child{pid, Fd{pidfd}};
  }
  Result<> clone();
  void run() {
    auto result = clone();
    child_channel.reset();
    cloned.set_value(std::move(result));
  }

  const std::shared_ptr<const PlannedCell> cell;
  Fd child_channel;
  const ChildStack stack;
  // Written by the kernel, see make_arguments: to be read after the child's first word, which shows
  // that there is one, or when `made`.
  int pid = 0;
  int pidfd = -1;
  bool made = false;   // the thread's alone while it runs
  bool taken = false;  // CellClone's alone
  std::promise<Result<>> cloned;
};

// Returns when the child executes its program or has ended, or when there is none.
Result<> CellClone::Loan::clone() {
  clone_args arguments = make_arguments(*cell, pidfd);
  arguments.flags |= CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID;
  arguments.parent_tid = reinterpret_cast<std::uint64_t>(&pid);
  arguments.stack = reinterpret_cast<std::uint64_t>(stack.bottom());
  arguments.stack_size = kStackBytes;
  const SignalBlock block;
  OwnerIdentity identity;
  TRY_DO(identity.take(cell->spec.uid_base));
  const long result = clone3_onto_stack(&arguments, run_cell_init, &cell->plan);
  identity.give_back();
  if (result < 0) {
    return fail(clone_error(static_cast<int>(-result)));
  }
  made = true;
  return {};
}

CellClone::CellClone(std::shared_ptr<const PlannedCell> cell, Fd child_channel, Memory memory)
    : cell_(std::move(cell)),
      child_channel_(std::move(child_channel)),
      lends_(kCanLend && memory == Memory::kLent && !cell_->plan.restore) {}

CellClone::~CellClone() {
  if (loan_ != nullptr) {
    [[maybe_unused]] const auto cloned = end_loan();
  }
}

Result<BegunCell> CellClone::begin(int channel, int timeout_ms) {
  if (lends_) {
    const auto lent = lend();
    if (lent) {
      return begin_with_loan(channel, timeout_ms);
    }
    LOG_WARN("a cell's child gets a copy of the memory", {"error", lent.error()});
  }
  return begin_with_copy(channel, timeout_ms);
}

Result<BegunCell> CellClone::begin_with_copy(int channel, int timeout_ms) {
  int pidfd = -1;
  clone_args arguments = make_arguments(*cell_, pidfd);
  long pid = -1;
  {
    const SignalBlock block;
    OwnerIdentity identity;
    TRY_DO(identity.take(cell_->spec.uid_base));
    pid = clone3_call(&arguments);
    if (pid == 0) {
      run_cell_init(cell_->plan);
    }
    const int error_number = errno;
    identity.give_back();
    if (pid < 0) {
      return fail(clone_error(error_number));
    }
  }
  Child child{static_cast<int>(pid), Fd{pidfd}};
  TRY(Fd listener, wait_for_own_descriptors(channel, child.pidfd(), timeout_ms));
  child_channel_.reset();  // not before: it was the child's too
  return BegunCell{std::move(child), std::move(listener)};
}

// Fails when there is no room for it, and has changed nothing then.
Result<> CellClone::lend() {
  TRY(ChildStack stack, ChildStack::make());
  auto loan = std::make_shared<Loan>(cell_, std::move(child_channel_), std::move(stack));
  cloned_ = loan->cloned.get_future();
  try {
    sleeper_ = std::thread{[loan] { loan->run(); }};
  } catch (const std::system_error& error) {
    child_channel_ = std::move(loan->child_channel);
    return fail(errno_error("making a thread for a cell's child", error.code().value()));
  }
  loan_ = std::move(loan);
  return {};
}

Result<BegunCell> CellClone::begin_with_loan(int channel, int timeout_ms) {
  auto listener = wait_for_own_descriptors(channel, -1, timeout_ms);
  if (listener) {
    return BegunCell{loan_->take(), *std::move(listener)};
  }
  // Whether there is a child, and which, nobody can say yet. One that comes, or waits for its
  // mounts, ends by itself when its channel has closed.
  ::shutdown(channel, SHUT_RDWR);
  TRY_DO(end_loan());
  return fail(std::move(listener).error());
}

// The error, if there was one, of the clone.
Result<> CellClone::end_loan() {
  const auto loan = std::exchange(loan_, nullptr);
  if (cloned_.wait_for(kReturnTime) != std::future_status::ready) {
    LOG_ERROR("a cell's child is stuck in the kernel and keeps the memory it borrowed",
              {"cell", cell_->spec.id});
    sleeper_.detach();
    return {};
  }
  sleeper_.join();
  return cloned_.get();
}

}  // namespace atl::runtime::namespaces
