// Snapshots as rows.
#pragma once

#include "store/room.h"
#include "store/sqlite/database.h"

namespace atl::store::snapshot_rows {

Result<> insert(Database& database, const Snapshot& snapshot);
Result<> remove(Database& database, const std::string& id);
Result<std::vector<Snapshot>> list(Database& database);

}  // namespace atl::store::snapshot_rows
