// Landlock: a second fence behind namespaces and seccomp.
//
// The cell's domain may not make device nodes, and (from ABI 6) may not signal what is outside
// itself. Abstract sockets belong to a network namespace, so only a cell on the host's network
// needs to be kept from those outside; in one with its own network the rule would only keep the
// tool that dumps memory from talking to its own half inside. Moving and linking files between
// directories must keep working, so REFER is handled and granted on the whole tree; ABI 1 cannot
// grant it and is therefore not used.
#pragma once

namespace atl::runtime::namespaces {

inline constexpr int kLeastLandlockAbi = 2;

// The kernel's Landlock ABI; 0 when it has none or it is switched off.
int landlock_abi();

struct LandlockOptions {
  int abi = 0;
  bool scope_abstract_sockets = false;
};
// Enters the domain for good. Returns 0 or an errno. Does nothing below kLeastLandlockAbi.
// REQUIRES: CAP_SYS_ADMIN in the own user namespace; "/" is the cell's root. Async-signal-safe.
int enter_landlock_domain(const LandlockOptions& options);

}  // namespace atl::runtime::namespaces
