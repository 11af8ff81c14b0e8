#include "base/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace atl {
namespace {

bool nothing_is_ignored_or_blocked() {
  std::ifstream status("/proc/self/status");
  int clean = 0;
  for (std::string line; std::getline(status, line);) {
    clean += line == "SigIgn:\t0000000000000000" || line == "SigBlk:\t0000000000000000" ? 1 : 0;
  }
  return clean == 2;
}

// A parent that is not a libc program can have ignored the signals libc reserves (32 and 33).
void ignore_everything() {
  struct {
    void (*handler)(int) = SIG_IGN;
    unsigned long rest[3] = {};
  } action;
  for (int signal = 1; signal <= 64; ++signal) {
    ::syscall(SYS_rt_sigaction, signal, &action, nullptr, 8);
  }
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
}

TEST(Signals, ResetLeavesNothingIgnoredOrBlocked) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ignore_everything();
    const bool dirty = !nothing_is_ignored_or_blocked();
    reset_signals();
    ::_exit(dirty && nothing_is_ignored_or_blocked() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace atl
