// Sandboxes as rows. Callers hold the store's mutex and bring their own transaction.
#pragma once

#include "store/room.h"
#include "store/sqlite/database.h"

namespace atl::store {

#define ATOLL_SANDBOX_COLUMNS                                                                  \
  "id, team_id, template, layers, status, generation, env, memory_bytes, cpu_millis,"          \
  " process_count, disk_bytes, auto_resume, ttl_seconds, hard_ttl_seconds, expires_at,"        \
  " hard_expires_at, labels, failure, claimed_at, created_at, updated_at, coalesce(name, '')," \
  " idle_ttl_seconds, parent_id, ephemeral_tmp, mounts"
inline constexpr const char* kFindSandbox =
    "SELECT " ATOLL_SANDBOX_COLUMNS " FROM sandboxes WHERE id = ?";
inline constexpr const char* kListSandboxes =
    "SELECT " ATOLL_SANDBOX_COLUMNS " FROM sandboxes ORDER BY created_at, id";
#undef ATOLL_SANDBOX_COLUMNS
// The row that a statement of one of these stands on.
Result<Sandbox> read_sandbox(Statement& row);

Result<> insert_row(Database& database, const Sandbox& sandbox);
// No row changes when it is not as expected.
Result<> configure_row(Database& database, const Sandbox& sandbox, const Expected& expected);

}  // namespace atl::store
