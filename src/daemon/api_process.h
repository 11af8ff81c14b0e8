// atolld: the process that faces the network, without privileges.
#pragma once

#include "daemon/options.h"

namespace atl::daemon {

// Drops privileges, opens the database and the port, serves until SIGTERM, drains.
Result<> run_api(const ApiOptions& options);

}  // namespace atl::daemon
