#include "control/credential_command.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/scope.h"
#include "base/strings.h"
#include "io/stream.h"
#include "secrets/plaintext.h"

namespace atl::control {
namespace {

constexpr const char* kPath = "PATH=/usr/local/bin:/usr/bin:/bin";
constexpr rlim_t kMaxFileBytes = 1 << 20;
constexpr rlim_t kMaxCpuSeconds = 10;

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Ended with its group and waited for when this goes.
class Child {
 public:
  Child() = default;
  Child(Child&& other) noexcept
      : pid(std::exchange(other.pid, -1)),
        handle(std::move(other.handle)),
        output(std::move(other.output)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid > 0) {
      ::kill(-pid, SIGKILL);
      ::kill(pid, SIGKILL);
      (void)wait();
    }
  }
  int wait() {
    ::kill(-pid, SIGKILL);  // what it left behind
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
    return status;
  }

  pid_t pid = -1;
  Fd handle;  // a pidfd
  Fd output;
};

void limit(pid_t pid) {
  for (const auto& [resource, most] : {std::pair{RLIMIT_FSIZE, kMaxFileBytes},
                                       {RLIMIT_CPU, kMaxCpuSeconds},
                                       {RLIMIT_CORE, rlim_t{0}}}) {
    const rlimit value{most, most};
    (void)::prlimit(pid, resource, &value, nullptr);
  }
}

Result<Child> start(const CredentialCommand& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("making a pipe");
  }
  Child child;
  child.output = Fd{ends[0]};
  const Fd write_end{ends[1]};
  TRY_DO(set_nonblocking(child.output.get(), true));
  std::vector<std::string> arguments{command.program};
  std::vector<std::string> environment = command.environment;
  environment.emplace_back(kPath);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  ::posix_spawn_file_actions_addchdir_np(&actions, "/");
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
      ::posix_spawn(&child.pid, command.program.c_str(), &actions, &attributes,
                    pointers_to(arguments).data(), pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error_number != 0) {
    child.pid = -1;
    return fail(Code::kUnavailable,
                "the operator has no such program for credentials, or it "
                "cannot be started");
  }
  limit(child.pid);
  child.handle = Fd{static_cast<int>(::syscall(SYS_pidfd_open, child.pid, O_NONBLOCK))};
  if (!child.handle) {
    return fail_errno("watching a program for credentials");
  }
  return child;
}

Task<> wait_readable(io::FdWatch& watch) {
  co_return co_await watch.readable();
}

Result<> check_owner(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) {
    return fail_errno(concat("looking at ", path));
  }
  const bool ours = facts.st_uid == 0 || facts.st_uid == ::geteuid();
  if (!ours || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0 || !S_ISDIR(facts.st_mode)) {
    return fail(Code::kFailedPrecondition,
                concat(path, " must be a directory that only root can write to"));
  }
  return {};
}

}  // namespace

Result<> check_command_directory(const std::string& path) {
  if (!path.starts_with('/')) {
    return fail(Code::kInvalidArgument, "the directory of programs must be an absolute path");
  }
  return check_owner(path);
}

Task<std::string> run_credential_command(io::Reactor& reactor, CredentialCommand command) {
  CO_TRY_DO(check_command_directory(command.program.substr(0, command.program.rfind('/'))));
  CO_TRY(Child child, start(command));
  std::string text;
  text.reserve(command.max_output_bytes + 4096);  // so that no half of it is left behind
  io::FdStream stream{reactor, std::move(child.output)};
  std::array<char, 4096> buffer;
  for (;;) {
    auto got = co_await stream.read(buffer);
    if (!got) {
      secrets::wipe(text);
      co_return fail(std::move(got).error());
    }
    if (*got == 0) {
      break;
    }
    text.append(buffer.data(), *got);
    if (text.size() > command.max_output_bytes) {
      secrets::wipe(text);
      co_return fail(Code::kUnavailable, "the program for the credential prints too much");
    }
  }
  ::explicit_bzero(buffer.data(), buffer.size());
  {
    io::FdWatch ended{reactor, child.handle.get()};
    CO_TRY_DO(co_await wait_readable(ended));
  }
  const int status = child.wait();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    secrets::wipe(text);
    co_return fail(
        Code::kUnavailable,
        WIFSIGNALED(status)
            ? concat("the program for the credential was ended by signal ", WTERMSIG(status))
            : concat("the program for the credential failed with status ", WEXITSTATUS(status)));
  }
  co_return std::move(text);
}

}  // namespace atl::control
