// Tries what every cell needs: an overlay, mounted in a new user namespace, over id-mapped mounts.
#pragma once

#include <string>

#include "base/error.h"

namespace atl::runtime::namespaces {

// Makes a temporary directory in `directory` and removes it again; also covers clone3 and pidfds.
Result<> try_overlay(const std::string& directory);

}  // namespace atl::runtime::namespaces
