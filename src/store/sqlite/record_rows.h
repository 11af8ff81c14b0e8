// Documents of the rooms above as rows. Callers hold the store's mutex and bring their own
// transaction.
#pragma once

#include "store/room.h"
#include "store/sqlite/database.h"

namespace atl::store::record_rows {

Result<> put(Database& database, const Record& record, std::int64_t expected_version);
Result<> remove(Database& database, const std::string& kind, const std::string& id);
Result<> remove_of_owner(Database& database, const std::string& owner_id);
Result<std::vector<Record>> list(Database& database, const std::string& kind);

}  // namespace atl::store::record_rows
