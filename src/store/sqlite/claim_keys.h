// Claims that happen once, as rows. Callers hold the store's mutex and bring their own transaction.
#pragma once

#include "store/room.h"
#include "store/sqlite/database.h"

namespace atl::store::claim_keys {

// Also forgets keys that are too old, and the oldest of too many.
Result<> insert(Database& database, const ClaimKey& key);
Result<std::optional<ClaimKey>> find(Database& database, const std::string& team_id,
                                     const std::string& key, UnixMillis now);
Result<> change_answer(Database& database, const std::string& team_id, const std::string& key,
                       const std::string& answer);
Result<> remove(Database& database, const std::string& team_id, const std::string& key);

}  // namespace atl::store::claim_keys
