#include "runtime/namespaces/criu_tools.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/fd.h"
#include "base/signals.h"
#include "base/strings.h"
#include "runtime/namespaces/capability_set.h"
#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxOutputBytes = std::size_t{64} * 1024;
constexpr rlim_t kMaxImageBytes = 1ULL << 40;
constexpr std::uint64_t kLeastMajor = 4;
constexpr std::uint64_t kLeastMinor = 1;
constexpr const char* kAdvice = "run tools/setup-criu, or give serve its place with --criu-dir";

// What reading and stopping the processes of another user namespace takes.
constexpr std::uint64_t kDumpCapabilities =
    capability_bit(CAP_SYS_ADMIN) | capability_bit(CAP_SYS_PTRACE) |
    capability_bit(CAP_DAC_OVERRIDE) | capability_bit(CAP_DAC_READ_SEARCH) |
    capability_bit(CAP_SYS_CHROOT) | capability_bit(CAP_SETUID) | capability_bit(CAP_SETGID) |
    capability_bit(CAP_NET_ADMIN) | capability_bit(CAP_IPC_OWNER) | capability_bit(CAP_KILL) |
    capability_bit(CAP_SYS_RESOURCE);

// In the child: plain system calls only.
[[noreturn]] void become_criu(char* const* arguments, int output, int lock) {
  reset_signals();
  for (int capability = 0; capability < 64; ++capability) {
    if ((kDumpCapabilities & capability_bit(capability)) == 0) {
      ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    }
  }
  const int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0) {
    ::_exit(127);
  }
  if (lock >= 0 && ::dup2(lock, 3) < 0) {
    ::_exit(127);
  }
  ::syscall(SYS_close_range, lock >= 0 ? 4 : 3, ~0U, 0);
  // Far beyond what a cell can have: a runaway criu must not fill the host.
  const rlimit file_size{kMaxImageBytes, kMaxImageBytes};
  ::setrlimit(RLIMIT_FSIZE, &file_size);
  ::umask(077);
  char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char* const environment[] = {path, nullptr};
  ::execve(arguments[0], arguments, environment);
  ::_exit(127);
}

// False when it had to be killed.
bool wait_for_end(int child, std::chrono::seconds time_limit) {
  const Fd pidfd{pidfd_open_call(child)};
  const auto deadline = Clock::now() + time_limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ended{pidfd.get(), POLLIN, 0};
    const int ready = ::poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready > 0) {
      return true;
    }
    if (ready == 0 || errno != EINTR) {
      (void)pidfd_send_signal_call(pidfd.get(), SIGKILL);
      return false;
    }
  }
}

std::string read_beginning(int file) {
  std::string text(kMaxOutputBytes, '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

}  // namespace

Result<CriuRun> run_criu(const CriuTools& tools, const std::vector<std::string>& words,
                         CriuLimits limits) {
  std::vector<std::string> all = {tools.directory + "/ld.so"};
  if (!tools.adapter.empty()) {
    all.insert(all.end(), {"--preload", tools.adapter});
  }
  all.insert(all.end(), {"--library-path", tools.directory + "/lib", tools.directory + "/criu"});
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  // A file and not a pipe, whose reader may be gone while criu still works.
  const Fd output{::memfd_create("criu-output", MFD_CLOEXEC)};
  if (!output) {
    return fail_errno("making a place for criu's words");
  }
  const pid_t child = ::fork();
  if (child == 0) {
    become_criu(arguments.data(), output.get(), limits.lock_fd);
  }
  if (child < 0) {
    return fail_errno("starting criu");
  }
  const bool in_time = wait_for_end(child, limits.time_limit);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return CriuRun{WIFEXITED(status) ? WEXITSTATUS(status) : -1, in_time,
                 read_beginning(output.get())};
}

MemoryDumps check_criu(const CriuTools& tools) {
  struct stat status{};
  if (tools.directory.empty() || ::stat((tools.directory + "/criu").c_str(), &status) != 0) {
    return {false, concat("criu is not installed in ",
                          tools.directory.empty() ? "any place" : tools.directory, ": ", kAdvice)};
  }
  if (status.st_uid != 0 || (status.st_mode & 0022) != 0) {
    return {false, concat(tools.directory, "/criu can be changed by others than root")};
  }
  const auto run = run_criu(tools, {"--version"});
  if (!run || run->exit_status != 0) {
    return {false, concat("criu in ", tools.directory, " does not run: ", kAdvice)};
  }
  // "Version: 4.1.1"
  const auto words = split(trim(split(run->output, '\n')[0]), ' ');
  const auto parts = split(words.back(), '.');
  const std::uint64_t major = parse_u64(parts[0]).value_or(0);
  const std::uint64_t minor = parts.size() > 1 ? parse_u64(parts[1]).value_or(0) : 0;
  if (major < kLeastMajor || (major == kLeastMajor && minor < kLeastMinor)) {
    return {false, concat("criu in ", tools.directory, " is older than ", kLeastMajor, ".",
                          kLeastMinor, ": ", kAdvice)};
  }
  return {true, ""};
}

}  // namespace atl::runtime::namespaces
