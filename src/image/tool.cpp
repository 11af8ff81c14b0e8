#include "image/tool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>

#include "base/fd.h"
#include "base/strings.h"

namespace atl::image {
namespace {

constexpr const char* kToolPath =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct Pipe {
  Fd read_end;
  Fd write_end;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("making a pipe");
  }
  return Pipe{.read_end = Fd{ends[0]}, .write_end = Fd{ends[1]}};
}

// Cuts a byte stream into lines. '\r' ends a line too: that is how tools redraw progress.
class LineCutter {
 public:
  template <class Sink>
  void feed(std::string_view bytes, const Sink& sink) {
    for (const char byte : bytes) {
      if (byte == '\n' || byte == '\r') {
        flush(sink);
      } else if (line_.size() < kToolLineBytes) {
        line_ += byte;
      }
    }
  }
  template <class Sink>
  void flush(const Sink& sink) {
    if (!line_.empty()) {
      sink(std::string_view{line_});
      line_.clear();
    }
  }

 private:
  std::string line_;
};

struct Spawned {
  pid_t pid = -1;
  Fd output;
  Fd errors;
};

// The C arrays that posix_spawn wants; borrows from the strings.
std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

Result<Spawned> spawn(const Tool& tool) {
  TRY(Pipe output, make_pipe());
  TRY(Pipe errors, make_pipe());
  std::vector<std::string> environment{kToolPath, "LC_ALL=C.UTF-8", "HOME=/nonexistent",
                                       "DEBIAN_FRONTEND=noninteractive"};
  environment.insert(environment.end(), tool.environment.begin(), tool.environment.end());

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output.write_end.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, errors.write_end.get(), 2);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  Spawned spawned;
  const int error_number =
      ::posix_spawnp(&spawned.pid, tool.argv[0].c_str(), &actions, &attributes,
                     pointers_to(tool.argv).data(), pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error_number != 0) {
    const std::string hint = error_number == ENOENT ? " (is its package installed?)" : "";
    return fail(errno_error(concat("starting ", tool.argv[0], hint), error_number));
  }
  spawned.output = std::move(output.read_end);
  spawned.errors = std::move(errors.read_end);
  return spawned;
}

// Reads what is there; false at the end of the stream.
template <class Sink>
bool pump(int fd, LineCutter& cutter, const Sink& sink) {
  std::array<char, 16384> buffer;
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got > 0) {
    cutter.feed({buffer.data(), static_cast<std::size_t>(got)}, sink);
    return true;
  }
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
    return true;
  }
  cutter.flush(sink);
  return false;
}

// Delivers lines until both streams end; returns the tail of standard error.
std::deque<std::string> follow(const Spawned& spawned, const Tool& tool) {
  std::deque<std::string> tail;
  const auto report = [&](std::string_view line) {
    if (tool.on_line) {
      tool.on_line(line);
    }
  };
  const auto report_error = [&](std::string_view line) {
    tail.emplace_back(line);
    if (tail.size() > kToolTailLines) {
      tail.pop_front();
    }
    report(line);
  };
  LineCutter output_lines;
  LineCutter error_lines;
  std::array<pollfd, 2> waits{{{.fd = spawned.output.get(), .events = POLLIN, .revents = 0},
                               {.fd = spawned.errors.get(), .events = POLLIN, .revents = 0}}};
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
      break;
    }
    if (waits[0].revents != 0 && !pump(waits[0].fd, output_lines, report)) {
      waits[0].fd = -1;
    }
    if (waits[1].revents != 0 && !pump(waits[1].fd, error_lines, report_error)) {
      waits[1].fd = -1;
    }
  }
  return tail;
}

}  // namespace

Result<> run_tool(const Tool& tool) {
  CHECK(!tool.argv.empty());
  TRY(const Spawned spawned, spawn(tool));
  const std::deque<std::string> tail = follow(spawned, tool);
  int status = 0;
  while (::waitpid(spawned.pid, &status, 0) < 0) {
    if (errno != EINTR) {
      return fail_errno(concat("waiting for ", tool.argv[0]));
    }
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {};
  }
  std::string message =
      WIFSIGNALED(status) ? concat(tool.argv[0], " was killed by signal ", WTERMSIG(status))
                          : concat(tool.argv[0], " failed with exit status ", WEXITSTATUS(status));
  for (std::size_t i = 0; i < tail.size(); ++i) {
    message += i == 0 ? ": " : " | ";
    append_printable(message, tail[i]);
  }
  return fail(Code::kInternal, std::move(message));
}

}  // namespace atl::image
