// Whether two files have the same bytes, reading as little as it takes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"

namespace atl::guest {

// REQUIRES: both are on one filesystem, have `size` bytes and do not change. `breathe` is called
// now and then, and ends it when it fails.
Result<bool> same_content(int one, int other, std::uint64_t size, const std::string& path,
                          const std::function<Result<>()>& breathe);

}  // namespace atl::guest
