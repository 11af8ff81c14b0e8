#include "layers/mkfs.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"
#include "base/strings.h"
#include "layers/limits.h"

namespace atl::layers {
namespace {

// Everything the child says, up to a limit; it is read to its end so that the child never blocks.
std::string read_complaint(int fd) {
  std::string complaint;
  char buffer[1024];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return complaint;
    }
    if (complaint.size() < kMaxComplaintBytes) {
      append_printable(complaint, {buffer, static_cast<std::size_t>(got)});
    }
  }
}

}  // namespace

Result<> format_btrfs(const std::string& path) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("making a pipe");
  }
  const Fd read_end{ends[0]};
  Fd write_end{ends[1]};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), 2);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  // One copy of metadata: the host's file system below decides how safe a block is.
  const char* const argv[] = {"mkfs.btrfs", "--quiet",    "--label", "atoll",
                              "--metadata", "single",     "--data",  "single",
                              "--",         path.c_str(), nullptr};
  const char* const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
                                     nullptr};
  pid_t pid = -1;
  const int error_number =
      ::posix_spawnp(&pid, argv[0], &actions, &attributes, const_cast<char**>(argv),
                     const_cast<char**>(environment));
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  write_end.reset();
  if (error_number != 0) {
    return fail(errno_error("starting mkfs.btrfs (package btrfs-progs)", error_number));
  }
  const std::string complaint = read_complaint(read_end.get());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) {
      return fail_errno("waiting for mkfs.btrfs");
    }
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(Code::kInternal, concat("mkfs.btrfs failed: ", complaint));
  }
  return {};
}

}  // namespace atl::layers
