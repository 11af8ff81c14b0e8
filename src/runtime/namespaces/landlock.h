// Landlock: a second fence behind namespaces and seccomp.
//
// The cell's domain may not make device nodes, and (from ABI 6) may neither signal nor reach
// abstract sockets outside itself. Moving and linking files between directories must keep
// working, so REFER is handled and granted on the whole tree; ABI 1 cannot grant it and is
// therefore not used.
#pragma once

namespace atl::runtime::namespaces {

inline constexpr int kLeastLandlockAbi = 2;

// The kernel's Landlock ABI; 0 when it has none or it is switched off.
int landlock_abi();

// Enters the domain for good. Returns 0 or an errno. Does nothing below kLeastLandlockAbi.
// REQUIRES: CAP_SYS_ADMIN in the own user namespace; "/" is the cell's root. Async-signal-safe.
int enter_landlock_domain(int abi);

}  // namespace atl::runtime::namespaces
