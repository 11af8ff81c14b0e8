// Templates in SQL. Each call is part of the caller's transaction.
#pragma once

#include "store/room.h"
#include "store/sqlite/database.h"

namespace atl::store::template_rows {

Result<> put(Database& database, const Template& value);
Result<> remove(Database& database, const std::string& name);
Result<std::vector<Template>> list(Database& database);

}  // namespace atl::store::template_rows
