#include "oci/tool.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>

#include "base/fd.h"
#include "base/scope.h"
#include "base/strings.h"
#include "io/stream.h"
#include "oci/limits.h"

namespace atl::oci {
namespace {

constexpr const char* kToolPath =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// A child of ours: killed and waited for when this goes before its end was seen.
class Child {
 public:
  Child() = default;
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        handle(std::move(other.handle)),
        output(std::move(other.output)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      ::kill(pid_, SIGKILL);
      (void)wait();
    }
  }

  // The status of waitpid(2). REQUIRES: not called before.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

  static Result<Child> start(const Tool& tool);

 private:
  pid_t pid_ = -1;

 public:
  Fd handle;  // a pidfd
  Fd output;
};

Result<Child> Child::start(const Tool& tool) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("making a pipe");
  }
  Child child;
  child.output = Fd{ends[0]};
  const Fd write_end{ends[1]};
  TRY_DO(set_nonblocking(child.output.get(), true));
  std::vector<std::string> environment{kToolPath, "LC_ALL=C.UTF-8"};
  environment.insert(environment.end(), tool.environment.begin(), tool.environment.end());

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), 2);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error_number =
      ::posix_spawnp(&child.pid_, tool.argv[0].c_str(), &actions, &attributes,
                     pointers_to(tool.argv).data(), pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error_number != 0) {
    child.pid_ = -1;
    if (error_number == ENOENT) {
      return fail(Code::kFailedPrecondition,
                  concat(tool.argv[0], " is not installed on the server; ", tool.missing_advice));
    }
    return fail(errno_error(concat("starting ", tool.argv[0]), error_number));
  }
  if (tool.max_file_bytes != 0) {
    const rlimit limit{tool.max_file_bytes, tool.max_file_bytes};
    if (::prlimit(child.pid_, RLIMIT_FSIZE, &limit, nullptr) != 0) {
      return fail_errno(concat("limiting ", tool.argv[0]));
    }
  }
  child.handle = Fd{static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, O_NONBLOCK))};
  if (!child.handle) {
    return fail_errno(concat("watching ", tool.argv[0]));
  }
  return child;
}

Task<> wait_readable(io::FdWatch& watch) {
  co_return co_await watch.readable();
}

}  // namespace

Task<> run_tool(io::Reactor& reactor, Tool tool) {
  CHECK(!tool.argv.empty());
  CO_TRY(Child child, Child::start(tool));
  std::deque<std::string> tail;
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) {
      if (tool.on_line) {
        tool.on_line(line);
      }
      tail.push_back(std::move(line));
      line.clear();
      if (tail.size() > kToolTailLines) {
        tail.pop_front();
      }
    }
  };
  {
    io::FdStream stream{reactor, std::move(child.output)};
    std::array<char, 16384> buffer;
    for (;;) {
      CO_TRY(const std::size_t got, co_await stream.read(buffer));
      if (got == 0) {
        break;
      }
      for (const char byte : std::string_view{buffer.data(), got}) {
        if (byte == '\n' || byte == '\r') {
          end_line();
        } else if (line.size() < kToolLineBytes) {
          line += byte;
        }
      }
    }
    end_line();
  }
  {
    io::FdWatch ended{reactor, child.handle.get()};
    CO_TRY_DO(co_await wait_readable(ended));
  }
  const int status = child.wait();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    co_return ok();
  }
  std::string message = WIFSIGNALED(status)
                            ? concat(tool.argv[0], " was ended by signal ", WTERMSIG(status))
                            : concat(tool.argv[0], " failed");
  for (std::size_t i = 0; i < tail.size(); ++i) {
    message += i == 0 ? ": " : " | ";
    append_printable(message, tail[i]);
  }
  co_return fail(Code::kFailedPrecondition, std::move(message), "tool_failed");
}

}  // namespace atl::oci
