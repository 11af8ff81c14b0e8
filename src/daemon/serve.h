// `atoll serve`: checks, locks and prepares, then supervises.
#pragma once

#include "daemon/options.h"

namespace atl::daemon {

Result<> run_serve(const ServeOptions& options);

}  // namespace atl::daemon
