// System calls and constants that the C library of Debian 12 does not know yet.
//
// Everything here is a thin inline door: no state, no allocation, no locks, so the child of a
// clone3 may use it too. A failing call returns -1 and sets errno.
#pragma once

#include <linux/openat2.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace atl::runtime::namespaces {

struct LandlockRuleset {
  std::uint64_t handled_file_access = 0;
  std::uint64_t handled_net_access = 0;
  std::uint64_t scoped = 0;
};
struct [[gnu::packed]] LandlockPathRule {
  std::uint64_t allowed_access = 0;
  std::int32_t parent_fd = -1;
};
inline constexpr std::uint64_t kLandlockScopeAbstractSockets = 1U << 0;
inline constexpr std::uint64_t kLandlockScopeSignals = 1U << 1;

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

inline long clone3_call(clone_args* arguments) {
  return ::syscall(SYS_clone3, arguments, sizeof *arguments);
}
inline int pidfd_open_call(int pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}
inline int pidfd_send_signal_call(int pidfd, int signal) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}
// A ".." on the way under RESOLVE_IN_ROOT is refused with EAGAIN while anything on the machine is
// renamed or mounted: that is the kernel's word for "again", and says nothing about the path.
inline int openat2_call(int directory, const char* path, const open_how* how) {
  constexpr int kMostTries = 1000;
  long fd = -1;
  for (int tries = 0; tries < kMostTries; ++tries) {
    fd = ::syscall(SYS_openat2, directory, path, how, sizeof *how);
    if (fd >= 0 || errno != EAGAIN) {
      break;
    }
  }
  return static_cast<int>(fd);
}
inline int landlock_create_ruleset_call(const LandlockRuleset* rules, std::size_t size,
                                        unsigned flags) {
  return static_cast<int>(::syscall(SYS_landlock_create_ruleset, rules, size, flags));
}

}  // namespace atl::runtime::namespaces
