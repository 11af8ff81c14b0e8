#include "store/sqlite/schema.h"

#include <array>

#include "base/strings.h"
#include "store/room.h"

namespace atl::store {
namespace {

constexpr const char* kFirst = R"(
CREATE TABLE teams (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE api_keys (
  id TEXT PRIMARY KEY, team_id TEXT NOT NULL REFERENCES teams(id), name TEXT NOT NULL,
  key_sha256 BLOB NOT NULL UNIQUE CHECK (length(key_sha256) = 32), roles TEXT NOT NULL,
  active INTEGER NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER, last_used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE templates (
  name TEXT PRIMARY KEY, alias TEXT NOT NULL, layers TEXT NOT NULL, spec TEXT NOT NULL,
  builtin INTEGER NOT NULL, updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sandboxes (
  id TEXT PRIMARY KEY, team_id TEXT NOT NULL REFERENCES teams(id), template TEXT NOT NULL,
  layers TEXT NOT NULL, status TEXT NOT NULL, generation INTEGER NOT NULL, env TEXT NOT NULL,
  memory_bytes INTEGER NOT NULL, cpu_millis INTEGER NOT NULL, process_count INTEGER NOT NULL,
  disk_bytes INTEGER NOT NULL, auto_resume INTEGER NOT NULL, ttl_seconds INTEGER NOT NULL,
  hard_ttl_seconds INTEGER NOT NULL, expires_at INTEGER, hard_expires_at INTEGER,
  labels TEXT NOT NULL, failure TEXT NOT NULL, claimed_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE outbox (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, subject TEXT NOT NULL,
  team_id TEXT NOT NULL, at INTEGER NOT NULL, detail TEXT NOT NULL
) STRICT;
)";

// Templates that people make, beside the builtin ones.
constexpr const char* kSecond = R"(
ALTER TABLE templates ADD COLUMN team_id TEXT NOT NULL DEFAULT 'default';
ALTER TABLE templates ADD COLUMN state TEXT NOT NULL DEFAULT 'ready';
ALTER TABLE templates ADD COLUMN failure TEXT NOT NULL DEFAULT '';
ALTER TABLE templates ADD COLUMN config TEXT NOT NULL DEFAULT '{}';
ALTER TABLE templates ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;
)";

// Names, idle times, and claims that happen once.
constexpr const char* kThird = R"(
ALTER TABLE sandboxes ADD COLUMN name TEXT;
ALTER TABLE sandboxes ADD COLUMN idle_ttl_seconds INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX sandbox_names ON sandboxes (team_id, name) WHERE name IS NOT NULL;
CREATE TABLE claim_keys (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, team_id TEXT NOT NULL, key TEXT NOT NULL,
  body_sha256 BLOB NOT NULL, answer TEXT NOT NULL, created_at INTEGER NOT NULL,
  UNIQUE (team_id, key)
) STRICT;
CREATE INDEX claim_keys_by_age ON claim_keys (created_at);
)";

// Moments to go back to.
constexpr const char* kFourth = R"(
ALTER TABLE sandboxes ADD COLUMN parent_id TEXT NOT NULL DEFAULT '';
CREATE TABLE snapshots (
  id TEXT PRIMARY KEY, team_id TEXT NOT NULL REFERENCES teams(id), sandbox_id TEXT NOT NULL,
  name TEXT NOT NULL, description TEXT NOT NULL, template TEXT NOT NULL, layers TEXT NOT NULL,
  env TEXT NOT NULL, memory_bytes INTEGER NOT NULL, cpu_millis INTEGER NOT NULL,
  process_count INTEGER NOT NULL, disk_bytes INTEGER NOT NULL, created_at INTEGER NOT NULL,
  expires_at INTEGER
) STRICT, WITHOUT ROWID;
)";

// Who came from whom. Rows of sandboxes and snapshots that are gone stay as ancestors.
constexpr const char* kFamilies = R"(
CREATE TABLE relatives (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, team_id TEXT NOT NULL,
  kind TEXT NOT NULL, parent_id TEXT NOT NULL, cause TEXT NOT NULL, name TEXT NOT NULL,
  template TEXT NOT NULL, created_at INTEGER NOT NULL, deleted_at INTEGER
) STRICT;
CREATE INDEX relatives_by_parent ON relatives (parent_id);
CREATE INDEX relatives_deleted ON relatives (sequence) WHERE deleted_at IS NOT NULL;
CREATE TABLE restores (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, sandbox_id TEXT NOT NULL, snapshot_id TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX restores_by_sandbox ON restores (sandbox_id, sequence);
INSERT INTO relatives (id, team_id, kind, parent_id, cause, name, template, created_at)
  SELECT id, team_id, 'sandbox', parent_id, iif(parent_id = '', 'template', 'fork'),
         coalesce(name, ''), template, created_at FROM sandboxes
  WHERE parent_id <> '' OR id IN (SELECT parent_id FROM sandboxes)
        OR id IN (SELECT sandbox_id FROM snapshots);
INSERT INTO relatives (id, team_id, kind, parent_id, cause, name, template, created_at)
  SELECT id, team_id, 'snapshot', sandbox_id, 'snapshot', name, template, created_at
  FROM snapshots;
)";

// /tmp that does not outlive the processes.
constexpr const char* kEphemeralTmp = R"(
ALTER TABLE sandboxes ADD COLUMN ephemeral_tmp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN ephemeral_tmp INTEGER NOT NULL DEFAULT 0;
)";

// Directories that live on their own.
constexpr const char* kVolumes = R"(
ALTER TABLE sandboxes ADD COLUMN mounts TEXT NOT NULL DEFAULT '[]';
CREATE TABLE volumes (
  id TEXT PRIMARY KEY, team_id TEXT NOT NULL REFERENCES teams(id), user_id TEXT NOT NULL,
  source_volume_id TEXT NOT NULL, ready INTEGER NOT NULL, access_mode TEXT NOT NULL,
  posix_uid INTEGER NOT NULL, posix_gid INTEGER NOT NULL, disk_bytes INTEGER NOT NULL,
  backend TEXT NOT NULL, settings TEXT NOT NULL, created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE volume_snapshots (
  id TEXT PRIMARY KEY, team_id TEXT NOT NULL REFERENCES teams(id), volume_id TEXT NOT NULL,
  name TEXT NOT NULL, description TEXT NOT NULL, size_bytes INTEGER NOT NULL,
  created_at INTEGER NOT NULL, expires_at INTEGER
) STRICT, WITHOUT ROWID;
)";

// Documents of the rooms above: policies, services, sealed credentials.
constexpr const char* kRecords = R"(
CREATE TABLE records (
  kind TEXT NOT NULL, id TEXT NOT NULL, team_id TEXT NOT NULL, owner_id TEXT NOT NULL,
  version INTEGER NOT NULL, body TEXT NOT NULL, created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX records_by_owner ON records (owner_id) WHERE owner_id <> '';
)";

constexpr std::array<const char*, 8> kMigrations{kFirst,    kSecond,       kThird,   kFourth,
                                                 kFamilies, kEphemeralTmp, kVolumes, kRecords};

Result<std::int64_t> schema_version(Database& database) {
  TRY(auto statement, database.prepare("SELECT coalesce(max(version), 0) FROM migrations"));
  TRY(const bool row, statement->step());
  CHECK(row);
  return statement->integer();
}

Result<> apply(Database& database, std::size_t version, UnixMillis now) {
  TRY(auto transaction, Transaction::begin(database, true));
  TRY_DO(database.execute(kMigrations[version - 1]));
  {
    TRY(auto statement, database.prepare("INSERT INTO migrations VALUES (?, ?)"));
    TRY_DO(statement->bind(static_cast<std::int64_t>(version)).bind(now).run());
  }
  return transaction->commit();
}

}  // namespace

Result<> migrate(Database& database, UnixMillis now) {
  TRY_DO(
      database.execute("CREATE TABLE IF NOT EXISTS migrations ("
                       "version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT"));
  TRY(const auto current, schema_version(database));
  if (current > static_cast<std::int64_t>(kMigrations.size())) {
    return fail(Code::kFailedPrecondition,
                concat("the database has schema ", current, ", this program knows up to ",
                       kMigrations.size(), "; use the newer Atoll that wrote it"),
                "schema_too_new");
  }
  for (auto version = static_cast<std::size_t>(current) + 1; version <= kMigrations.size();
       ++version) {
    TRY_DO(apply(database, version, now));
  }
  TRY(auto team, database.prepare("INSERT INTO teams VALUES (?, 'Default', ?)"
                                  " ON CONFLICT (id) DO NOTHING"));
  return team->bind(kDefaultTeam).bind(now).run();
}

}  // namespace atl::store
