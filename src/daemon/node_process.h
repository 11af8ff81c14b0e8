// The root process: storage, isolation, and the socket on which atolld asks for both.
#pragma once

#include "daemon/options.h"

namespace atl::daemon {

// Runs until SIGTERM; then destroys every cell, unmounts, and returns.
Result<> run_node(const NodeOptions& options);

}  // namespace atl::daemon
