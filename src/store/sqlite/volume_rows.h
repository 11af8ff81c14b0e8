// Volumes and their snapshots as rows. Callers hold the store's mutex and bring their own
// transaction.
#pragma once

#include "store/room.h"
#include "store/sqlite/database.h"

namespace atl::store::volume_rows {

Result<> put(Database& database, const Volume& volume);
Result<> remove(Database& database, const std::string& id);
Result<std::vector<Volume>> list(Database& database);

Result<> insert_snapshot(Database& database, const VolumeSnapshot& snapshot);
Result<> remove_snapshot(Database& database, const std::string& id);
Result<std::vector<VolumeSnapshot>> list_snapshots(Database& database);

}  // namespace atl::store::volume_rows
