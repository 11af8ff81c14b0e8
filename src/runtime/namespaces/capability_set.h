// The capabilities a cell keeps, all of them valid only inside its own user namespace.
//
// What multi-user images, sudo and package managers need, and nothing that reaches mounts, the
// network setup, devices, or other users' processes. The bounding set is what counts: a root
// program started by execve gets exactly the bounding set.
#pragma once

#include <linux/capability.h>

#include <cstdint>

namespace atl::runtime::namespaces {

constexpr std::uint64_t capability_bit(int capability) {
  return std::uint64_t{1} << capability;
}

inline constexpr std::uint64_t kKeptCapabilities =
    capability_bit(CAP_CHOWN) | capability_bit(CAP_DAC_OVERRIDE) | capability_bit(CAP_FOWNER) |
    capability_bit(CAP_FSETID) | capability_bit(CAP_KILL) | capability_bit(CAP_SETGID) |
    capability_bit(CAP_SETUID) | capability_bit(CAP_SETPCAP) |
    capability_bit(CAP_NET_BIND_SERVICE) | capability_bit(CAP_SYS_CHROOT) |
    capability_bit(CAP_SETFCAP) | capability_bit(CAP_AUDIT_WRITE);

// Both return 0 or an errno and are async-signal-safe. The first needs CAP_SETPCAP; the second
// also empties the inheritable and ambient sets.
int drop_bounding_set();
int drop_to_kept_capabilities();

}  // namespace atl::runtime::namespaces
