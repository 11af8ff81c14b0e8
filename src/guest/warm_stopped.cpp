#include "guest/warm_stopped.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <limits>

#include "base/fd.h"
#include "base/strings.h"
#include "guest/process.h"

namespace atl::guest {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxThreads = 1024;
constexpr std::size_t kMaxStatBytes = 4096;
constexpr int kMaxStops = 64;
constexpr int kSignalBits = 0x7f;
constexpr int kSystemCallStop = SIGTRAP | 0x80;
constexpr std::uint64_t kEverySignal = ~0ULL;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

bool is_event_stop(int stop) {
  return stop >> 8 == PTRACE_EVENT_STOP;
}

// It has ended, and only its name is left or not even that. The kernel refuses to trace it then.
bool has_ended(pid_t pid, pid_t thread) {
  const auto stat = read_file(concat("/proc/", pid, "/task/", thread, "/stat"), kMaxStatBytes);
  const auto name_end = stat ? stat->rfind(") ") : std::string::npos;
  if (name_end == std::string::npos || name_end + 2 >= stat->size()) {
    return true;
  }
  const char state = (*stat)[name_end + 2];
  return state == 'Z' || state == 'X';
}

Result<> set_options(pid_t pid, std::uintptr_t options) {
  if (::ptrace(PTRACE_SETOPTIONS, pid, nullptr, options) != 0) {
    return fail_errno("tracing a process");
  }
  return {};
}

Result<> set_mask(pid_t pid, const std::uint64_t& mask) {
  if (::ptrace(PTRACE_SETSIGMASK, pid, sizeof mask, &mask) != 0) {
    return fail_errno("setting the signal mask of a process");
  }
  return {};
}

}  // namespace

std::unexpected<Error> cannot_own(std::string why) {
  return fail(Code::kFailedPrecondition, std::move(why), "not_owned");
}

std::vector<pid_t> numbers_in(const std::string& directory) {
  std::vector<pid_t> numbers;
  std::error_code error;
  for (fs::directory_iterator it{directory, error}; !error && it != fs::directory_iterator{};
       it.increment(error)) {
    if (const auto number = parse_u64(it->path().filename().native());
        number && *number <= INT32_MAX) {
      numbers.push_back(static_cast<pid_t>(*number));
    }
  }
  return numbers;
}

StoppedProcess::~StoppedProcess() {
  if (stop_it_again_) {
    ::kill(pid_, SIGSTOP);
  }
  for (const pid_t thread : threads_) {
    ::ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
  }
}

void StoppedProcess::kill() {
  ::kill(pid_, SIGKILL);
}

// Threads that begin meanwhile are begun by others that still run, so it looks again.
Result<> StoppedProcess::stop(std::int64_t deadline_ms) {
  std::vector<pid_t> seen;
  for (bool more = true; more;) {
    more = false;
    for (const pid_t thread : numbers_in(concat("/proc/", pid_, "/task"))) {
      if (std::ranges::find(seen, thread) == seen.end()) {
        TRY_DO(stop_thread(thread, deadline_ms));
        seen.push_back(thread);
        more = true;
      }
    }
  }
  if (std::ranges::find(threads_, pid_) == threads_.end()) {
    return cannot_own("its first thread has ended");
  }
  TRY(registers_, save_registers(pid_));
  if (::ptrace(PTRACE_GETSIGMASK, pid_, sizeof mask_, &mask_) != 0) {
    return fail_errno("reading the signal mask of a process");
  }
  return {};
}

Result<> StoppedProcess::stop_thread(pid_t thread, std::int64_t deadline_ms) {
  if (threads_.size() >= kMaxThreads) {
    return cannot_own("it has too many threads");
  }
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_TRACESYSGOOD) != 0) {
    const int error = errno;
    if (error == ESRCH || (error == EPERM && has_ended(pid_, thread))) {
      return {};
    }
    return fail(errno_error("tracing a process", error));
  }
  threads_.push_back(thread);
  auto stopped = wait_for_stop(thread, deadline_ms);
  if (!stopped && stopped.error().code == Code::kNotFound) {
    return {};  // that it has ended is as good
  }
  return stopped;
}

// Signals that were on their way come first, and are delivered.
Result<> StoppedProcess::wait_for_stop(pid_t thread, std::int64_t deadline_ms) {
  ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);  // fails when it ends, which is waited for
  for (int stops = 0; stops < kMaxStops; ++stops) {
    TRY(const int stop, wait(thread, deadline_ms));
    if (is_event_stop(stop)) {
      return {};
    }
    ::ptrace(PTRACE_CONT, thread, nullptr, stop & kSignalBits);
  }
  return cannot_own("signals disturb it");
}

Result<std::uint64_t> StoppedProcess::call(std::uint64_t instruction, const KernelCall& call) {
  const auto made = make_call(instruction, call);
  Result<std::int64_t> result = made ? result_of_call(pid_) : fail(made.error());
  if (const auto itself = become_itself(); !itself) {
    if (itself.error().code != Code::kNotFound) {
      kill();  // rather than let it run as something else
    }
    return fail(itself.error());
  }
  TRY(const std::int64_t answer, std::move(result));
  if (answer < 0 && answer > -4096) {
    return fail(errno_error(concat("system call ", call.number, " of a process"),
                            static_cast<int>(-answer)));
  }
  return static_cast<std::uint64_t>(answer);
}

// Its beginning and its end are told. With every signal blocked only SIGSTOP and stops of the whole
// process can come between.
Result<> StoppedProcess::make_call(std::uint64_t instruction, const KernelCall& call) {
  TRY_DO(set_options(pid_, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
  TRY_DO(set_mask(pid_, kEverySignal));
  TRY_DO(aim_at_call(pid_, instruction, call));
  int told = 0;
  for (int stops = 0; told < 2; ++stops) {
    if (stops == kMaxStops) {
      return cannot_own("signals disturb it");
    }
    if (::ptrace(PTRACE_SYSCALL, pid_, nullptr, nullptr) != 0) {
      return fail_errno("continuing a process");
    }
    TRY(const int stop, wait(pid_, kNever));
    told += stop == kSystemCallStop ? 1 : 0;
    stop_it_again_ = stop_it_again_ || stop == SIGSTOP;
  }
  return {};
}

// Wherever it is, it first comes to a stop on the kernel's way out, where the kernel looks at its
// registers once more.
Result<> StoppedProcess::become_itself() {
  ::ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr);
  for (;;) {
    ::ptrace(PTRACE_CONT, pid_, nullptr, nullptr);  // fails when it moves, and when it is dead
    TRY(const int stop, wait(pid_, kNever));
    if (is_event_stop(stop)) {
      break;
    }
    stop_it_again_ = stop_it_again_ || stop == SIGSTOP;
  }
  TRY_DO(put_back_registers(pid_, registers_));
  TRY_DO(set_mask(pid_, mask_));
  return set_options(pid_, PTRACE_O_TRACESYSGOOD);
}

// The stop that comes next. The end of a process is told only when each other thread of it that is
// traced was waited for.
Result<int> StoppedProcess::wait(pid_t thread, std::int64_t deadline_ms) {
  for (;;) {
    int status = 0;
    const pid_t got = ::waitpid(thread, &status, __WALL | WNOHANG);
    if ((got < 0 && errno == ECHILD) || (got == thread && !WIFSTOPPED(status))) {
      std::erase(threads_, thread);
      return fail(Code::kNotFound, "it has ended", "not_owned");
    }
    if (got < 0 && errno != EINTR) {
      return fail_errno("waiting for a process");
    }
    if (got == thread) {
      return status >> 8;
    }
    std::erase_if(threads_, [thread](pid_t other) {
      int how = 0;
      return other != thread && ::waitpid(other, &how, __WALL | WNOHANG) == other &&
             !WIFSTOPPED(how);
    });
    const std::int64_t left_ms = deadline_ms - monotonic_ms();
    if (left_ms <= 0) {
      return cannot_own("it does not stop");
    }
    sigset_t told;
    ::sigemptyset(&told);
    ::sigaddset(&told, SIGCHLD);
    const timespec left{left_ms / 1000, left_ms % 1000 * 1'000'000};
    ::sigtimedwait(&told, nullptr, deadline_ms == kNever ? nullptr : &left);
  }
}

}  // namespace atl::guest
