#include "base/signals.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace atl {

void reset_signals() {
  // The kernel's own structure and call: libc refuses the two real-time signals it keeps for
  // itself, yet a parent without libc can have ignored them, and that too would be inherited.
  constexpr int kLastSignal = 64;
  struct KernelAction {
    void* handler;
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  };
  const KernelAction fresh{};  // a null handler is the default action
  for (int signal = 1; signal <= kLastSignal; ++signal) {
    ::syscall(SYS_rt_sigaction, signal, &fresh, nullptr, sizeof fresh.mask);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace atl
