#include "guest/trust_tools.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <span>

#include "base/fd.h"
#include "base/strings.h"
#include "guest/identity.h"
#include "guest/limits.h"
#include "guest/spawn.h"

namespace atl::guest {
namespace {

constexpr const char* kAlias = "atoll-sandbox-authority";
constexpr const char* kCertutils[] = {"/usr/bin/certutil", "/usr/local/bin/certutil"};

const char* find_program(std::span<const char* const> candidates) {
  for (const char* path : candidates) {
    if (::access(path, X_OK) == 0) {
      return path;
    }
  }
  return nullptr;
}

// Becomes the user and then the program; silent.
[[noreturn]] void become_tool(const std::vector<std::string>& words, const Identity& identity) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; ++fd) {
    ::dup2(null, fd);
  }
  close_from(3);
  ::umask(022);
  if (!assume_identity(identity)) {
    ::_exit(126);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> arguments;
  for (const auto& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  std::string path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  std::string home = concat("HOME=", identity.home);
  char* environment[] = {path.data(), home.data(), nullptr};
  ::execve(words[0].c_str(), arguments.data(), environment);
  ::_exit(127);
}

bool wait_for_tool(pid_t pid) {
  const Fd handle{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  pollfd ended{handle.get(), POLLIN, 0};
  if (handle && ::poll(&ended, 1, kTrustToolMs) != 1) {
    ::kill(-pid, SIGKILL);
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool run_tool(const std::vector<std::string>& words, const Identity& identity) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    become_tool(words, identity);
  }
  return pid > 0 && wait_for_tool(pid);
}

// As the user: the directory is theirs, and so is whatever they put into it.
bool make_database(const std::string& certutil, const Identity& identity) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!assume_identity(identity)) {
      ::_exit(126);
    }
    ::umask(077);
    (void)::mkdir((identity.home + "/.pki").c_str(), 0700);
    (void)::mkdir((identity.home + "/.pki/nssdb").c_str(), 0700);
    ::_exit(::access((identity.home + "/.pki/nssdb").c_str(), W_OK) == 0 ? 0 : 1);
  }
  if (pid < 0 || !wait_for_tool(pid)) {
    return false;
  }
  const std::string database = identity.home + "/.pki/nssdb";
  if (::access((database + "/cert9.db").c_str(), F_OK) == 0) {
    return true;
  }
  return run_tool({certutil, "-N", "-d", "sql:" + database, "--empty-password"}, identity);
}

}  // namespace

void trust_in_nss(const std::string& anchor, const std::vector<std::string>& users, bool had_one) {
  const char* certutil = find_program(kCertutils);
  std::set<std::string> homes;
  for (const std::string& user : users) {
    const auto identity = certutil == nullptr ? fail(Code::kNotFound, "") : find_identity(user);
    if (!identity || !homes.insert(identity->home).second || !make_database(certutil, *identity)) {
      continue;
    }
    const std::string database = concat("sql:", identity->home, "/.pki/nssdb");
    if (had_one) {
      (void)run_tool({certutil, "-D", "-d", database, "-n", kAlias}, *identity);
    }
    if (!anchor.empty()) {
      (void)run_tool({certutil, "-A", "-d", database, "-n", kAlias, "-t", "C,,", "-i", anchor},
                     *identity);
    }
  }
}

}  // namespace atl::guest
