#include "guest/warm_owning.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>

#include "base/fd.h"
#include "base/signals.h"
#include "base/strings.h"
#include "guest/identity.h"
#include "guest/limits.h"
#include "guest/spawn.h"
#include "guest/warm_areas.h"
#include "guest/warm_live.h"

namespace atl::guest {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kChunkBytes = 1U << 20;
constexpr std::size_t kMaxStatusFileBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxKernelPagesBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxThreads = 1024;
constexpr int kMaxStops = 64;
constexpr int kSignalBits = 0x7f;
constexpr std::uint64_t kEverySignal = ~0ULL;
constexpr std::array<char, kPageBytes> kZeroes{};

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

std::unexpected<Error> cannot_own(std::string why) {
  return fail(Code::kFailedPrecondition, std::move(why), "not_owned");
}

// The numbers that are the names of entries: processes in /proc, threads in its task.
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

// All threads of a process, stopped. They go on when this ends, each where it was.
class StoppedProcess {
 public:
  explicit StoppedProcess(pid_t pid) : pid_(pid), deadline_ms_(now_ms() + kOwningMs) {}
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;
  ~StoppedProcess() {
    for (const pid_t thread : threads_) {
      ::ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
    }
  }

  // Threads that begin meanwhile are begun by others that still run, so it looks again.
  Result<> stop() {
    for (;;) {
      bool more = false;
      for (const pid_t thread : numbers_in(concat("/proc/", pid_, "/task"))) {
        if (std::ranges::find(threads_, thread) == threads_.end()) {
          TRY_DO(stop_thread(thread));
          more = true;
        }
      }
      if (!more) {
        break;
      }
    }
    if (std::ranges::find(threads_, pid_) == threads_.end()) {
      return cannot_own("its first thread has ended");
    }
    return {};
  }

  // Makes the first thread call the kernel; what it was about to do comes after that.
  Result<std::uint64_t> call(std::uint64_t instruction, const KernelCall& call) {
    TRY_DO(aim_at_call(pid_, instruction, call));
    constexpr int kSystemCallStop = SIGTRAP | 0x80;
    int told = 0;
    for (int stops = 0; told < 2; ++stops) {  // its beginning and its end are told
      if (stops == kMaxStops) {
        return cannot_own("signals disturb it");
      }
      if (::ptrace(PTRACE_SYSCALL, pid_, nullptr, nullptr) != 0) {
        return fail_errno("continuing a process");
      }
      TRY(const int stop, wait(pid_));
      told += stop == kSystemCallStop ? 1 : 0;
    }
    TRY(const std::int64_t result, result_of_call(pid_));
    if (result < 0 && result > -4096) {
      return fail(errno_error(concat("system call ", call.number, " of a process"),
                              static_cast<int>(-result)));
    }
    return static_cast<std::uint64_t>(result);
  }

 private:
  Result<> stop_thread(pid_t thread) {
    if (threads_.size() >= kMaxThreads) {
      return cannot_own("it has too many threads");
    }
    if (::ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_TRACESYSGOOD) != 0) {
      if (errno == ESRCH) {
        return {};  // it has ended
      }
      return fail_errno("tracing a process");
    }
    threads_.push_back(thread);
    if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) {
      return fail_errno("stopping a process");
    }
    // Signals that were on their way come first, and are delivered.
    for (int stops = 0; stops < kMaxStops; ++stops) {
      TRY(const int stop, wait(thread));
      if (stop >> 8 == PTRACE_EVENT_STOP) {
        return {};
      }
      if (::ptrace(PTRACE_CONT, thread, nullptr, stop & kSignalBits) != 0) {
        return fail_errno("continuing a process");
      }
    }
    return cannot_own("signals disturb it");
  }

  // The stop that comes next.
  Result<int> wait(pid_t thread) {
    for (;;) {
      int status = 0;
      const pid_t got = ::waitpid(thread, &status, __WALL | WNOHANG);
      if (got < 0 && errno != EINTR) {
        return fail_errno("waiting for a process");
      }
      if (got == thread && !WIFSTOPPED(status)) {
        std::erase(threads_, thread);
        return cannot_own("it ended");
      }
      if (got == thread) {
        return status >> 8;
      }
      const std::int64_t left_ms = deadline_ms_ - now_ms();
      if (left_ms <= 0) {
        return cannot_own("it does not stop");
      }
      sigset_t ended;
      ::sigemptyset(&ended);
      ::sigaddset(&ended, SIGCHLD);
      const timespec left{left_ms / 1000, left_ms % 1000 * 1'000'000};
      ::sigtimedwait(&ended, nullptr, &left);
    }
  }

  const pid_t pid_;
  const std::int64_t deadline_ms_;
  std::vector<pid_t> threads_;
};

class Owning {
 public:
  explicit Owning(pid_t pid) : pid_(pid), process_(pid) {}
  Result<std::uint64_t> run();

 private:
  Result<> find_instruction(const std::vector<Area>& areas);
  Result<> own(const Area& area);
  Result<> copy(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);

  const pid_t pid_;
  StoppedProcess process_;
  Fd memory_;
  std::uint64_t instruction_ = 0;
  std::string buffer_;
};

Result<> Owning::find_instruction(const std::vector<Area>& areas) {
  const auto found = std::ranges::find(areas, "[vdso]", &Area::name);
  if (found == areas.end() || found->bytes() > kMaxKernelPagesBytes) {
    return cannot_own("it has no pages for fast system calls");
  }
  std::string code(found->bytes(), '\0');
  if (::pread(memory_.get(), code.data(), code.size(), static_cast<off_t>(found->start)) !=
      static_cast<ssize_t>(code.size())) {
    return fail_errno("reading the memory of a process");
  }
  const std::size_t at = find_call_instruction(code);
  if (at == std::string::npos) {
    return cannot_own("its pages for fast system calls make none");
  }
  instruction_ = found->start + at;
  return {};
}

// Pages that are all zero stay untouched.
Result<> Owning::copy(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  buffer_.resize(kChunkBytes);
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t wanted = std::min(kChunkBytes, bytes - done);
    const ssize_t got =
        ::pread(memory_.get(), buffer_.data(), wanted, static_cast<off_t>(from + done));
    if (got != static_cast<ssize_t>(wanted)) {
      return fail_errno("reading the memory of a process");
    }
    for (std::uint64_t at = 0; at < wanted;) {
      std::uint64_t end = at;
      while (end < wanted && std::memcmp(buffer_.data() + end, kZeroes.data(), kPageBytes) != 0) {
        end += kPageBytes;
      }
      if (end > at &&
          ::pwrite(memory_.get(), buffer_.data() + at, end - at,
                   static_cast<off_t>(to + done + at)) != static_cast<ssize_t>(end - at)) {
        return fail_errno("writing the memory of a process");
      }
      at = end == at ? at + kPageBytes : end;
    }
    done += wanted;
  }
  return {};
}

Result<> Owning::own(const Area& area) {
  constexpr std::uint64_t kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  TRY(const std::uint64_t place,
      process_.call(instruction_,
                    {SYS_mmap, {0, area.bytes(), PROT_READ | PROT_WRITE, kFlags, ~0ULL, 0}}));
  auto copied = copy(area.start, place, area.bytes());
  if (copied && area.protection != (PROT_READ | PROT_WRITE)) {
    if (auto set =
            process_.call(instruction_, {SYS_mprotect, {place, area.bytes(), area.protection}});
        !set) {
      copied = fail(std::move(set).error());
    }
  }
  if (!copied) {
    (void)process_.call(instruction_, {SYS_munmap, {place, area.bytes()}});
    return copied;
  }
  constexpr std::uint64_t kThere = MREMAP_MAYMOVE | MREMAP_FIXED;
  TRY_DO(process_.call(instruction_,
                       {SYS_mremap, {place, area.bytes(), area.bytes(), kThere, area.start, 0}}));
  return {};
}

bool is_of_image(const Area& area) {
  return !area.shared && area.name.starts_with(kImageMappingName);
}

std::uint64_t bytes_of_images(const std::vector<Area>& areas) {
  std::uint64_t bytes = 0;
  for (const Area& area : areas) {
    bytes += is_of_image(area) ? area.bytes() : 0;
  }
  return bytes;
}

Result<std::uint64_t> Owning::run() {
  TRY(auto areas, read_areas(pid_));
  if (bytes_of_images(areas) == 0) {
    return std::uint64_t{0};
  }
  TRY_DO(process_.stop());
  TRY(areas, read_areas(pid_));  // as they are now and stay
  const std::uint64_t bytes = bytes_of_images(areas);
  if (bytes > kMaxOwnedBytes) {
    return cannot_own("it shares too much memory");
  }
  memory_ = Fd{::open(concat("/proc/", pid_, "/mem").c_str(), O_RDWR | O_CLOEXEC)};
  if (!memory_) {
    return fail_errno("opening the memory of a process");
  }
  TRY_DO(find_instruction(areas));
  TRY(const std::string saved, save_registers(pid_));
  std::uint64_t mask = 0;
  if (::ptrace(PTRACE_GETSIGMASK, pid_, sizeof mask, &mask) < 0 ||
      ::ptrace(PTRACE_SETSIGMASK, pid_, sizeof kEverySignal, &kEverySignal) < 0) {
    return fail_errno("blocking the signals of a process");
  }
  Result<> owned;
  for (const Area& area : areas) {
    if (owned && is_of_image(area)) {
      owned = own(area);
    }
  }
  if (::ptrace(PTRACE_SETSIGMASK, pid_, sizeof mask, &mask) < 0) {
    return fail_errno("giving a process its signals back");
  }
  TRY_DO(put_back_registers(pid_, saved));
  TRY_DO(std::move(owned));
  return bytes;
}

// Who a process is, as the lines of its status say it; one worker serves all that are the same.
struct Rights {
  uid_t user = 0;
  gid_t group = 0;
  std::vector<gid_t> groups;
  auto operator<=>(const Rights&) const = default;
};

std::vector<std::uint32_t> numbers_of(std::string_view status, std::string_view key) {
  std::vector<std::uint32_t> numbers;
  for (const std::string_view line : split(status, '\n')) {
    if (!line.starts_with(key)) {
      continue;
    }
    std::string plain{line.substr(key.size())};
    std::ranges::replace(plain, '\t', ' ');
    for (const std::string_view word : split(plain, ' ')) {
      if (const auto number = parse_u64(word); number && *number <= UINT32_MAX) {
        numbers.push_back(static_cast<std::uint32_t>(*number));
      }
    }
  }
  return numbers;
}

std::map<Rights, std::vector<pid_t>> find_processes() {
  std::map<Rights, std::vector<pid_t>> found;
  const pid_t self = ::getpid();
  for (const pid_t pid : numbers_in("/proc")) {
    const auto status = read_file(concat("/proc/", pid, "/status"), kMaxStatusFileBytes);
    if (pid == 1 || pid == self || !status) {
      continue;
    }
    const auto users = numbers_of(*status, "Uid:");
    const auto groups = numbers_of(*status, "Gid:");
    if (!users.empty() && !groups.empty()) {
      found[{users[0], groups[0], numbers_of(*status, "Groups:")}].push_back(pid);
    }
  }
  return found;
}

}  // namespace

Result<std::uint64_t> own_memory(pid_t pid) {
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);  // waited for
  return Owning{pid}.run();
}

void run_owning_worker() {
  close_from(0);
  raise_oom_score();
  for (const auto& [rights, pids] : find_processes()) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Identity identity{.uid = rights.user, .gid = rights.group, .groups = rights.groups};
      if (assume_identity(identity)) {
        for (const pid_t pid : pids) {
          (void)own_memory(pid);  // what it could not do, the dump finds and says
        }
      }
      ::_exit(0);
    }
    if (child > 0) {
      int status = 0;
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
    }
  }
  ::_exit(0);
}

}  // namespace atl::guest
