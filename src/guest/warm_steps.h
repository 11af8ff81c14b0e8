// How a process that has just executed its program becomes another one: as a list of system calls.
//
// The list, the code that makes the calls and its stack lie in one small mapping at an address that
// neither the old nor the new memory uses. First the kernel's own pages are moved beside it, then
// everything else is unmapped, then the memory of the image is mapped, then the kernel's pages go
// where the image had them.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "guest/warm_image.h"

namespace atl::guest {

struct RestoreDescriptors {
  int memory = -1;  // the image's pages
  int plan = -1;    // what is made here
};

struct RestorePlan {
  std::uint64_t start = 0;  // of the mapping
  std::uint64_t bytes = 0;  // more than the content: room for the kernel's pages
  std::string content;
  std::uint64_t code = 0;
  std::uint64_t stack_top = 0;
  std::uint64_t first_step = 0;
  std::uint64_t last_step = 0;  // one behind
};

// `kernel_pages`: where the process has the first of the kernel's mappings now.
Result<RestorePlan> make_restore_plan(const WarmImage& image, RestoreDescriptors descriptors,
                                      std::uint64_t kernel_pages);

}  // namespace atl::guest
