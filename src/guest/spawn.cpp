#include "guest/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/bytes.h"
#include "base/signals.h"
#include "base/strings.h"
#include "guest/identity.h"
#include "guest/program.h"

namespace atl::guest {
namespace {

constexpr int kChannelFd = 3;
constexpr int kStatusFd = 4;
constexpr std::uint8_t kReportRecord = 0;
constexpr std::uint8_t kErrorRecord = 1;

struct Pipe {
  Fd reader;
  Fd writer;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("creating a pipe");
  }
  return Pipe{Fd{ends[0]}, Fd{ends[1]}};
}

struct Terminal {
  Fd master;
  Fd slave;
};

// What is typed is not shown, a line may have any length, and no byte of the output is changed;
// ^C still interrupts.
Result<> make_driven(const Fd& terminal) {
  termios settings{};
  if (::tcgetattr(terminal.get(), &settings) != 0) {
    return fail_errno("reading the settings of a terminal");
  }
  settings.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHOE | ECHOK | ECHONL | ECHOCTL | ICANON);
  settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  settings.c_cc[VMIN] = 1;
  settings.c_cc[VTIME] = 0;
  if (::tcsetattr(terminal.get(), TCSANOW, &settings) != 0) {
    return fail_errno("changing the settings of a terminal");
  }
  return {};
}

Result<Terminal> make_terminal(const PtySize& size) {
  Terminal terminal;
  // The path may be anything the sandbox's root put there: never block on it, and let the ioctls
  // below find out whether it is a terminal.
  terminal.master = Fd{::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)};
  int locked = 0;
  if (!terminal.master || ::ioctl(terminal.master.get(), TIOCSPTLCK, &locked) != 0) {
    return fail(errno_error("opening a terminal through /dev/ptmx"));
  }
  terminal.slave = Fd{::ioctl(terminal.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)};
  winsize window{};
  window.ws_row = static_cast<unsigned short>(size.rows);
  window.ws_col = static_cast<unsigned short>(size.columns);
  if (!terminal.slave || ::ioctl(terminal.slave.get(), TIOCSWINSZ, &window) != 0) {
    return fail_errno("opening the other side of a terminal");
  }
  return terminal;
}

// The child's ends; each is moved to its final number after fork.
struct ChildEnds {
  Fd status;
  Fd input;
  Fd output;
  Fd error_output;
  Fd terminal;
  Fd channel;
};

struct Ends {
  Spawned parent;
  ChildEnds child;
};

Result<> make_channel(Ends& ends) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return fail_errno("creating the channel");
  }
  ends.parent.channel = Fd{sockets[0]};
  ends.child.channel = Fd{sockets[1]};
  return set_nonblocking(ends.parent.channel.get(), true);
}

Result<> make_input(Ends& ends, const SpawnRequest& request) {
  if (request.stdin_open) {
    TRY(auto input, make_pipe());
    ends.parent.input = std::move(input.writer);
    ends.child.input = std::move(input.reader);
    return set_nonblocking(ends.parent.input.get(), true);
  }
  ends.child.input = Fd{::open("/dev/null", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  struct stat opened{};
  if (!ends.child.input || ::fstat(ends.child.input.get(), &opened) != 0 ||
      !S_ISCHR(opened.st_mode)) {
    // No usable /dev/null: a pipe nobody writes to reads as empty just the same.
    TRY(auto empty, make_pipe());
    ends.child.input = std::move(empty.reader);
  }
  return set_nonblocking(ends.child.input.get(), false);
}

Result<Ends> make_ends(const SpawnRequest& request) {
  Ends ends;
  TRY(auto status, make_pipe());
  ends.parent.status = std::move(status.reader);
  ends.child.status = std::move(status.writer);
  TRY_DO(set_nonblocking(ends.parent.status.get(), true));
  if (request.channel) {
    TRY_DO(make_channel(ends));
  }
  if (request.pty) {
    TRY(auto terminal, make_terminal(*request.pty));
    if (request.pty_driven) {
      TRY_DO(make_driven(terminal.slave));
    }
    TRY(ends.parent.input, terminal.master.duplicate());
    ends.parent.terminal = std::move(terminal.master);
    ends.child.terminal = std::move(terminal.slave);
    return ends;
  }
  TRY_DO(make_input(ends, request));
  TRY(auto output, make_pipe());
  TRY(auto error_output, make_pipe());
  ends.parent.output = std::move(output.reader);
  ends.child.output = std::move(output.writer);
  ends.parent.error_output = std::move(error_output.reader);
  ends.child.error_output = std::move(error_output.writer);
  TRY_DO(set_nonblocking(ends.parent.output.get(), true));
  TRY_DO(set_nonblocking(ends.parent.error_output.get(), true));
  return ends;
}

// Puts the child's ends at 0, 1, 2, kChannelFd and kStatusFd. Every end is first lifted out of the
// way, so no dup2 below can overwrite one that is still needed.
Result<> arrange_descriptors(ChildEnds ends) {
  const auto lift = [](const Fd& fd) { return ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 16); };
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
  const auto env = complete_environment(request.env, *identity, request.pty.has_value());
  ByteWriter report;
  report.u8(kReportRecord).string(*cwd).string(identity->name);
  if (auto written = write_all(kStatusFd, report.bytes()); !written) {
    return std::move(written).error();
  }
  reset_signals();
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
  ByteWriter record;
  record.u8(kErrorRecord).string(encode(error));
  (void)write_all(status_fd, record.bytes());
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
    const int error_number = errno;
    if (error_number == EAGAIN) {
      return fail(Code::kResourceExhausted,
                  "cannot start a process: the sandbox's process limit is reached",
                  "process_limit");
    }
    return fail(errno_error("starting a process", error_number));
  }
  if (pid == 0) {
    run_child(request, std::move(ends.child), file_limit);
  }
  ends.parent.pid = pid;
  return std::move(ends.parent);
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
