// Health, and the team of a key.
#pragma once

#include "service/e2b/e2b_routes.h"

namespace atl::service::e2b {

void add_health_routes(E2bRoutes& routes);

}  // namespace atl::service::e2b
