// The schema and how it came to be: one migration per step, each applied once, in order, in one
// transaction with its row in `migrations`. Never edit a migration that was released; add one.
#pragma once

#include "base/clock.h"
#include "store/sqlite/database.h"

namespace atl::store {

Result<> migrate(Database& database, UnixMillis now);

}  // namespace atl::store
