#include "guest/child_ends.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

namespace atl::guest {
namespace {

struct Pipe {
  Fd reader;
  Fd writer;
};

Result<Pipe> make_pipe(int flags = 0) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | flags) != 0) {
    return fail_errno("creating a pipe");
  }
  return Pipe{Fd{ends[0]}, Fd{ends[1]}};
}

// Of a pipe that is new: it has no other flags.
Result<> make_waitless(const Fd& end) {
  if (::fcntl(end.get(), F_SETFL, O_NONBLOCK) != 0) {
    return fail_errno("changing O_NONBLOCK");
  }
  return {};
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
    return make_waitless(ends.parent.input);
  }
  ends.child.input = Fd{::open("/dev/null", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  struct stat opened{};
  if (!ends.child.input || ::fstat(ends.child.input.get(), &opened) != 0 ||
      !S_ISCHR(opened.st_mode)) {
    // No usable /dev/null: a pipe nobody writes to reads as empty just the same.
    TRY(auto empty, make_pipe());
    ends.child.input = std::move(empty.reader);
    return {};
  }
  if (::fcntl(ends.child.input.get(), F_SETFL, 0) != 0) {
    return fail_errno("changing O_NONBLOCK");
  }
  return {};
}

}  // namespace

Result<Ends> make_ends(const SpawnRequest& request) {
  Ends ends;
  // Neither side ever waits: it is read when the child has closed it, and what is written fits.
  TRY(auto status, make_pipe(O_NONBLOCK));
  ends.parent.status = std::move(status.reader);
  ends.child.status = std::move(status.writer);
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
  TRY_DO(make_waitless(ends.parent.output));
  TRY_DO(make_waitless(ends.parent.error_output));
  return ends;
}

}  // namespace atl::guest
