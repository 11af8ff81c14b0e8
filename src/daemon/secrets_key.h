// The file with the keys that seal stored secrets: root's, outside the database, so that a copy of
// the database alone gives nothing away. The API gets its text and never sees the file.
#pragma once

#include <string>

#include "base/error.h"

namespace atl::daemon {

// The text of a checked key file; the first start makes it.
Result<std::string> load_or_make_secrets_key(const std::string& path);
// One that the operator keeps elsewhere; never made, because then two would exist.
Result<std::string> load_given_secrets_key(const std::string& path);

}  // namespace atl::daemon
