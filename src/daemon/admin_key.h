// The first key: made once, kept in <data-dir>/admin.key for root, known to the API as a hash.
#pragma once

#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace atl::daemon {

// The SHA-256 of the key; makes the file when there is none.
Result<std::string> load_or_make_admin_key(const std::string& path);
// Whether only root can read or change it; says how to make it so.
Result<> check_private_file(const std::string& path);
// A sealed memory file with these bytes, to hand to a child.
Result<Fd> seal_in_memory(const std::string& bytes);

}  // namespace atl::daemon
