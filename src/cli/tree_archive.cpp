#include "cli/tree_archive.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/strings.h"

extern char** environ;

namespace atl::cli {

Result<std::unique_ptr<TreeArchive>> TreeArchive::open(io::Reactor& reactor,
                                                       const std::string& directory) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("making a pipe");
  }
  Fd output{ends[0]};
  const Fd write_end{ends[1]};
  TRY_DO(set_nonblocking(output.get(), true));
  const std::vector<std::string> words{"tar",       "--create",  "--format=pax", "--numeric-owner",
                                       "--owner=0", "--group=0", "--directory",  directory,
                                       "--",        "."};
  std::vector<char*> argv;
  for (const std::string& word : words) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error_number = ::posix_spawnp(&pid, "tar", &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error_number != 0) {
    return fail(errno_error("starting tar", error_number));
  }
  return std::unique_ptr<TreeArchive>{new TreeArchive{reactor, std::move(output), pid}};
}

TreeArchive::~TreeArchive() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

Task<std::size_t> TreeArchive::read(std::span<char> buffer) {
  CO_TRY(const std::size_t got, co_await stream_.read(buffer));
  if (got > 0 || pid_ <= 0) {
    co_return got;
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  // 1: a file changed while it was read, which is the reader's own business.
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
    co_return fail(Code::kFailedPrecondition, "tar could not read the directory");
  }
  co_return 0;
}

Task<std::size_t> TreeArchive::read(std::span<char> buffer, std::uint64_t& count) {
  CO_TRY(const std::size_t got, co_await read(buffer));
  count += got;
  co_return got;
}

}  // namespace atl::cli
