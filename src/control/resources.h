// What a sandbox may use: Kubernetes quantities in, numbers in range out.
//
// Memory "512Mi", cpu "500m" or "2", disk "10Gi". What is not given gets a default: 2 GiB of
// memory, every core of the host, 10 GiB of disk, 4096 processes. (The reference derives cpu from
// memory and has no cpu field; ours are extensions.)
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "store/room.h"

namespace atl::control {

struct ResourcePolicy {
  std::uint64_t default_memory_bytes = 2ULL << 30;
  std::uint64_t min_memory_bytes = 128ULL << 20;
  std::uint64_t max_memory_bytes = 16ULL << 30;
  std::uint32_t default_cpu_millis = 1000;
  std::uint32_t min_cpu_millis = 50;
  std::uint32_t max_cpu_millis = 1000;
  std::uint64_t default_disk_bytes = 10ULL << 30;
  std::uint64_t min_disk_bytes = 64ULL << 20;
  std::uint64_t max_disk_bytes = 1ULL << 40;
  std::uint32_t process_count = 4096;
};

// The policy of this host: all its cores, and its memory where that is more than 16 GiB.
ResourcePolicy host_resource_policy();

struct ResourceRequest {
  std::optional<std::string> memory;
  std::optional<std::string> cpu;
  std::optional<std::string> disk;
};
// kInvalidArgument that names the field, the value and what is allowed.
Result<store::Limits> decide_limits(const ResourcePolicy& policy, const ResourceRequest& request);

std::optional<std::uint32_t> parse_cpu_millis(std::string_view text);
std::string format_cpu_millis(std::uint32_t millis);  // "500m", "2"

}  // namespace atl::control
