// Whether a restored process is behind the fences of a cell, as the kernel says.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace atl::runtime::namespaces {

enum class Place : std::uint8_t {
  kInside,   // a pid namespace of its own
  kOutside,  // that of the node
  kGone,     // dead or dying
};
Result<Place> find_place(int pid);

// Every thread has a seccomp filter, cannot gain privileges, and has no capability that a cell does
// not keep. kFailedPrecondition otherwise; one that ends meanwhile is fine.
Result<> check_fences(int pid);

// The same for the text of one /proc/PID/status.
Result<> check_fences_in(std::string_view status);

}  // namespace atl::runtime::namespaces
