// The parts of a process's address space, as the kernel lists them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace atl::guest {

// The memory file of an image; what the kernel calls a mapping of it begins like this.
inline constexpr const char* kImageFileName = "atoll-image";
inline constexpr std::string_view kImageMappingName = "/memfd:atoll-image";

struct Area {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint32_t protection = 0;  // PROT_*
  bool shared = false;
  std::uint64_t offset = 0;
  dev_t device = 0;
  std::uint64_t inode = 0;
  std::string name;
  std::uint64_t bytes() const { return end - start; }
};

// Of any process that the caller may look at.
Result<std::vector<Area>> read_areas(pid_t pid);

}  // namespace atl::guest
