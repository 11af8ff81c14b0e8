#include "guest/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/bytes.h"
#include "base/strings.h"
#include "guest/child_ends.h"
#include "guest/identity.h"
#include "guest/program.h"
#include "guest/sftp_server.h"
#include "guest/trust.h"
#include "guest/wire_sftp.h"

namespace atl::guest {
namespace {

constexpr int kChannelFd = 3;
constexpr int kStatusFd = 4;
constexpr std::uint8_t kReportRecord = 0;
constexpr std::uint8_t kErrorRecord = 1;

// Puts the child's ends at 0, 1, 2, kChannelFd and kStatusFd. An end that is in the way is first
// lifted out of it, so no dup2 below can overwrite one that is still needed.
Result<> arrange_descriptors(ChildEnds ends) {
  const auto lift = [](const Fd& fd) {
    return fd.get() > kStatusFd ? fd.get() : ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 16);
  };
  const bool terminal = static_cast<bool>(ends.terminal);
  const int input = lift(terminal ? ends.terminal : ends.input);
  const int output = lift(terminal ? ends.terminal : ends.output);
  const int error_output = lift(terminal ? ends.terminal : ends.error_output);
  const int status = lift(ends.status);
  const int channel = ends.channel ? lift(ends.channel) : -1;
  if (input < 0 || output < 0 || error_output < 0 || status < 0 || (ends.channel && channel < 0)) {
    return fail_errno("arranging descriptors");
  }
  if (::dup2(input, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(error_output, STDERR_FILENO) < 0 || ::dup3(status, kStatusFd, O_CLOEXEC) < 0 ||
      (channel >= 0 && ::dup2(channel, kChannelFd) < 0)) {
    return fail_errno("arranging descriptors");
  }
  if (channel < 0) {
    ::close(kChannelFd);
  }
  // From here the numbers belong to the new program; nothing may be closed by a destructor.
  ends.status.release();
  ends.input.release();
  ends.output.release();
  ends.error_output.release();
  ends.terminal.release();
  ends.channel.release();
  close_from(kStatusFd + 1);
  return {};
}

// The agent ignores no signal and catches none; what it blocks is inherited.
void unblock_signals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

Error become_program(const SpawnRequest& request, const rlimit& file_limit) {
  raise_oom_score();
  ::setrlimit(RLIMIT_NOFILE, &file_limit);
  ::umask(022);
  auto identity = find_identity(request.user);
  if (!identity) {
    return std::move(identity).error();
  }
  if (request.pty) {
    if (::ioctl(STDIN_FILENO, TIOCSCTTY, 0) != 0) {
      return errno_error("taking the terminal");
    }
    // So that programs that open their terminal again by name may do so. Where devpts does not
    // allow it the open descriptors still work.
    if (::fchown(STDIN_FILENO, identity->uid, static_cast<gid_t>(-1)) != 0) {
      errno = 0;
    }
  }
  if (auto assumed = assume_identity(*identity); !assumed) {
    return std::move(assumed).error();
  }
  auto cwd = enter_directory(request.cwd, *identity);
  if (!cwd) {
    return std::move(cwd).error();
  }
  auto env = complete_environment(request.env, *identity, request.pty.has_value());
  add_trust_variables(env);
  if (auto written = write_all(kStatusFd, encode_report({*cwd, identity->name})); !written) {
    return std::move(written).error();
  }
  unblock_signals();
  if (request.argv.size() == 1 && request.argv.front() == kSftpProgram) {
    ::close(kStatusFd);  // as an exec would: it has begun
    ::_exit(sftp::serve(STDIN_FILENO, STDOUT_FILENO));
  }
  return execute(request.argv, env);
}

[[noreturn]] void run_child(const SpawnRequest& request, ChildEnds ends, const rlimit& file_limit) {
  int status_fd = ends.status.get();
  ::setsid();
  auto arranged = arrange_descriptors(std::move(ends));
  Error error;
  if (arranged) {
    status_fd = kStatusFd;
    error = become_program(request, file_limit);
  } else {
    error = std::move(arranged).error();
  }
  (void)write_all(status_fd, encode_start_failure(error));
  ::_exit(127);
}

}  // namespace

void close_from(int first) {
  if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) {
    return;
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (rlim_t fd = static_cast<rlim_t>(first); fd < limit.rlim_cur; ++fd) {
    ::close(static_cast<int>(fd));
  }
}

void raise_oom_score() {
  if (!write_existing("/proc/self/oom_score_adj", "500")) {
    errno = 0;  // a sandbox without /proc, or one that may not: nothing else depends on it
  }
}

Result<Spawned> spawn(const SpawnRequest& request, const rlimit& file_limit) {
  TRY(auto ends, make_ends(request));
  const pid_t pid = ::fork();
  if (pid < 0) {
    return cannot_fork(errno);
  }
  if (pid == 0) {
    run_child(request, std::move(ends.child), file_limit);
  }
  ends.parent.pid = pid;
  return std::move(ends.parent);
}

std::string encode_report(const StartReport& report) {
  return ByteWriter{}.u8(kReportRecord).string(report.cwd).string(report.user).bytes();
}

std::string encode_start_failure(const Error& error) {
  return ByteWriter{}.u8(kErrorRecord).string(encode(error)).bytes();
}

std::unexpected<Error> cannot_fork(int error_number) {
  if (error_number == EAGAIN) {
    return fail(Code::kResourceExhausted,
                "cannot start a process: the sandbox's process limit is reached", "process_limit");
  }
  return fail(errno_error("starting a process", error_number));
}

Result<StartReport> parse_status(std::string_view status) {
  ByteReader in{status};
  StartReport report;
  bool reported = false;
  while (in.ok() && in.remaining() > 0) {
    if (in.u8() == kErrorRecord) {
      return fail(decode_error(in.view()));
    }
    report.cwd = in.string();
    report.user = in.string();
    reported = true;
  }
  if (!in.ok() || !reported) {
    return fail(Code::kAborted, "the process was ended before its program started", "not_started");
  }
  return report;
}

}  // namespace atl::guest
