// Who came from whom, in SQL. Each call is part of the caller's transaction.
#pragma once

#include "store/room.h"
#include "store/sqlite/database.h"

namespace atl::store::relative_rows {

// These write the parent too, when it had no relatives before.
Result<> add_sandbox(Database& database, const Sandbox& sandbox, const Descent& descent);
Result<> add_snapshot(Database& database, const Snapshot& snapshot);
Result<> note_restore(Database& database, const std::string& sandbox_id,
                      const Relative::Restore& restore);
// Marks it as deleted when something came from it, else forgets it, and with it those ancestors
// that are deleted and have nobody else. Nothing happens to one without relatives.
Result<> bury(Database& database, const std::string& id, UnixMillis at);
Result<std::vector<Relative>> list(Database& database, const std::string& team_id);

}  // namespace atl::store::relative_rows
