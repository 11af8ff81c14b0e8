// The guest executable, copied once into sealed memory.
//
// A cell starts the guest from this copy and never from the file: through /proc/1/exe root inside
// can reach what it was started from, and a sealed memory file is neither writable by anyone nor
// a path on the host. All cells share its pages.
#pragma once

#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace atl::runtime::namespaces {

inline constexpr std::size_t kMaxGuestBytes = 256U << 20;

Result<Fd> load_guest_image(const std::string& path);

}  // namespace atl::runtime::namespaces
