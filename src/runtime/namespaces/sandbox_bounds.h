// How many cells this host can have at once, and what stands in the way first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atl::runtime::namespaces {

struct SandboxBound {
  std::uint64_t sandboxes = 0;
  std::string what;    // "open files per process"
  std::string advice;  // how to raise it
};

// What the host allows; 0 stands for unknown.
struct HostAllowance {
  std::uint64_t open_files = 0;  // the hard limit of one process
  std::uint64_t namespaces = 0;  // the least of user.max_*_namespaces
  std::uint64_t processes = 0;   // the least of pid_max and threads-max
  std::uint64_t memory_bytes = 0;
};
HostAllowance read_host_allowance();

// The lowest comes first.
std::vector<SandboxBound> sandbox_bounds(const HostAllowance& allowance);

}  // namespace atl::runtime::namespaces
