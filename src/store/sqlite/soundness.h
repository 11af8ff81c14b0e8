// Whether a database file is the one we wrote, before anything acts on what it says.
//
// Rows decide what lives: a process that starts with too few of them destroys cells and disks as
// orphans. So a file that is damaged is refused, and one that is gone, or empty, although there was
// one before, is never replaced by a new one. That there was one says a mark beside it.
#pragma once

#include <string>

#include "store/sqlite/database.h"

namespace atl::store {

// Before the file is opened, because opening makes it.
Result<> refuse_lost(const std::string& path);
// Reads every page.
Result<> refuse_damaged(Database& database);
// From now on the file must be there.
Result<> mark_kept(const std::string& path);
// The same error, with what a person can do about it.
Error with_advice(Error error, const std::string& path);

}  // namespace atl::store
