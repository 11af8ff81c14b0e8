// The Store on one SQLite connection behind one mutex. The mutex is recursive because the parts of
// a group are calls like all others, made while the group holds it.
//
// WAL with synchronous=NORMAL: a commit is a write to the log, no fsync, and survives a crash of
// this process. For a durable change the log is synced after the commit; among others once for all
// of them, without keeping the next commits waiting.
#include <mutex>

#include "base/strings.h"
#include "store/room.h"
#include "store/sqlite/claim_keys.h"
#include "store/sqlite/columns.h"
#include "store/sqlite/database.h"
#include "store/sqlite/log_copier.h"
#include "store/sqlite/record_rows.h"
#include "store/sqlite/relative_rows.h"
#include "store/sqlite/sandbox_rows.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/snapshot_rows.h"
#include "store/sqlite/soundness.h"
#include "store/sqlite/template_rows.h"
#include "store/sqlite/volume_rows.h"

namespace atl::store {
namespace {

class SqliteStore final : public Store {
 public:
  SqliteStore(std::unique_ptr<Database> database, std::unique_ptr<LogCopier> copier)
      : database_(std::move(database)), copier_(std::move(copier)) {
    database_->leave_log_to([this](std::int64_t pages) { copier_->note_length(pages); },
                            kMaxLogPages);
  }

  Result<> together(std::span<StorePart> parts) override;
  Result<> sync() override;

  Result<> check() override;
  Result<std::vector<Team>> list_teams() override;
  Result<> put_api_key(const ApiKey& key) override;
  Result<std::vector<ApiKey>> list_api_keys() override;
  Result<> touch_api_key(const std::string& id, UnixMillis used_at) override;
  Result<> put_template(const Template& value) override;
  Result<std::vector<Template>> list_templates() override;
  Result<> remove_template(const std::string& name) override;
  Result<> insert_sandboxes(const std::vector<NewSandbox>& sandboxes,
                            const std::optional<ClaimKey>& key, Durability durability) override;
  Result<std::optional<ClaimKey>> find_claim_key(const std::string& team_id, const std::string& key,
                                                 UnixMillis now) override;
  Result<> remove_claim_key(const std::string& team_id, const std::string& key) override;
  Result<> change_claim_answer(const std::string& team_id, const std::string& key,
                               const std::string& answer) override;
  Result<> configure_sandbox(const Sandbox& sandbox, const Expected& expected,
                             const Event& event) override;
  Result<> change_sandbox(const std::string& id, const Expected& expected,
                          const Transition& transition, const Event& event,
                          Durability durability) override;
  Result<> remove_sandbox(const std::string& id, const Expected& expected,
                          const Event& event) override;
  Result<Sandbox> find_sandbox(const std::string& id) override;
  Result<std::vector<Sandbox>> list_sandboxes() override;
  Result<> insert_snapshot(const Snapshot& snapshot, const std::optional<ClaimKey>& key) override;
  Result<> remove_snapshot(const std::string& id, UnixMillis at) override;
  Result<std::vector<Snapshot>> list_snapshots() override;
  Result<> note_restore(const std::string& sandbox_id, const Relative::Restore& restore) override;
  Result<std::vector<Relative>> list_relatives(const std::string& team_id) override;
  Result<> put_volume(const Volume& volume) override {
    return durably([&] { return volume_rows::put(*database_, volume); });
  }
  Result<> remove_volume(const std::string& id) override {
    return durably([&] { return volume_rows::remove(*database_, id); });
  }
  Result<> insert_volume_snapshot(const VolumeSnapshot& snapshot) override {
    return durably([&] { return volume_rows::insert_snapshot(*database_, snapshot); });
  }
  Result<> remove_volume_snapshot(const std::string& id) override {
    return durably([&] { return volume_rows::remove_snapshot(*database_, id); });
  }
  Result<std::vector<Volume>> list_volumes() override {
    const std::lock_guard lock{mutex_};
    return volume_rows::list(*database_);
  }
  Result<> put_record(const Record& record, std::int64_t expected_version) override {
    return durably([&] { return record_rows::put(*database_, record, expected_version); });
  }
  Result<> remove_record(const std::string& kind, const std::string& id) override {
    return durably([&] { return record_rows::remove(*database_, kind, id); });
  }
  Result<std::vector<Record>> list_records(const std::string& kind) override {
    const std::lock_guard lock{mutex_};
    return record_rows::list(*database_, kind);
  }
  Result<std::vector<VolumeSnapshot>> list_volume_snapshots() override {
    const std::lock_guard lock{mutex_};
    return volume_rows::list_snapshots(*database_);
  }
  Result<std::vector<OutboxEvent>> read_outbox(std::int64_t after, std::size_t limit) override;

 private:
  template <class Change>
  Result<> durably(Change change) {
    const std::lock_guard lock{mutex_};
    TRY(auto transaction, Transaction::begin(*database_, true));
    TRY_DO(change());
    return transaction->commit();
  }
  Result<> append_event(const Event& event);
  // After a compare-and-set that changed nothing: says why.
  Result<> explain_unchanged(const std::string& id, const Expected& expected);

  std::recursive_mutex mutex_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<LogCopier> copier_;
};

Result<> SqliteStore::together(std::span<StorePart> parts) {
  const std::lock_guard lock{mutex_};
  Group group{*database_};
  for (StorePart& part : parts) {
    part.run();
    part.durable = group.take_durable();
  }
  return group.end();
}

Result<> SqliteStore::sync() {
  return database_->sync_log();
}

Result<> SqliteStore::check() {
  const std::lock_guard lock{mutex_};
  TRY(auto statement, database_->prepare("SELECT count(*) FROM teams"));
  TRY(const bool row, statement->step());
  CHECK(row);
  return {};
}

Result<std::vector<Team>> SqliteStore::list_teams() {
  const std::lock_guard lock{mutex_};
  TRY(auto statement, database_->prepare("SELECT id, name, created_at FROM teams ORDER BY id"));
  std::vector<Team> teams;
  for (;;) {
    TRY(const bool row, statement->step());
    if (!row) {
      return teams;
    }
    Team& team = teams.emplace_back();
    team.id = statement->text();
    team.name = statement->text();
    team.created_at = statement->integer();
  }
}

Result<> SqliteStore::put_api_key(const ApiKey& key) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, true));
  {
    const std::string roles = encode_list(key.roles);
    TRY(auto statement,
        database_->prepare("INSERT INTO api_keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                           " ON CONFLICT (id) DO UPDATE SET team_id = excluded.team_id,"
                           " name = excluded.name, key_sha256 = excluded.key_sha256,"
                           " roles = excluded.roles, active = excluded.active,"
                           " expires_at = excluded.expires_at"));
    statement->bind(key.id).bind(key.team_id).bind(key.name).bind_blob(key.key_sha256);
    statement->bind(roles).bind(std::int64_t{key.active}).bind(key.created_at);
    TRY_DO(statement->bind(key.expires_at).bind(key.last_used_at).run());
  }
  return transaction->commit();
}

Result<std::vector<ApiKey>> SqliteStore::list_api_keys() {
  const std::lock_guard lock{mutex_};
  TRY(auto statement,
      database_->prepare("SELECT id, team_id, name, key_sha256, roles, active, created_at,"
                         " expires_at, last_used_at FROM api_keys ORDER BY created_at, id"));
  std::vector<ApiKey> keys;
  for (;;) {
    TRY(const bool row, statement->step());
    if (!row) {
      return keys;
    }
    ApiKey& key = keys.emplace_back();
    key.id = statement->text();
    key.team_id = statement->text();
    key.name = statement->text();
    key.key_sha256 = statement->text();
    TRY(key.roles, decode_list(statement->text()));
    key.active = statement->integer() != 0;
    key.created_at = statement->integer();
    key.expires_at = statement->optional_integer();
    key.last_used_at = statement->optional_integer();
  }
}

Result<> SqliteStore::touch_api_key(const std::string& id, UnixMillis used_at) {
  const std::lock_guard lock{mutex_};
  TRY(auto statement, database_->prepare("UPDATE api_keys SET last_used_at = ? WHERE id = ?"));
  return statement->bind(used_at).bind(id).run();
}

Result<> SqliteStore::put_template(const Template& value) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, true));
  TRY_DO(template_rows::put(*database_, value));
  return transaction->commit();
}

Result<> SqliteStore::remove_template(const std::string& name) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, true));
  TRY_DO(template_rows::remove(*database_, name));
  return transaction->commit();
}

Result<std::vector<Template>> SqliteStore::list_templates() {
  const std::lock_guard lock{mutex_};
  return template_rows::list(*database_);
}

Result<> SqliteStore::insert_sandboxes(const std::vector<NewSandbox>& sandboxes,
                                       const std::optional<ClaimKey>& key, Durability durability) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, durability == Durability::kDurable));
  for (const auto& [sandbox, event, descent, records] : sandboxes) {
    TRY_DO(insert_row(*database_, sandbox));
    TRY_DO(append_event(event));
    if (descent) {
      TRY_DO(relative_rows::add_sandbox(*database_, sandbox, *descent));
    }
    for (const Record& record : records) {
      TRY_DO(record_rows::put(*database_, record, 0));
    }
  }
  if (key) {
    TRY_DO(claim_keys::insert(*database_, *key));
  }
  return transaction->commit();
}

Result<std::optional<ClaimKey>> SqliteStore::find_claim_key(const std::string& team_id,
                                                            const std::string& key,
                                                            UnixMillis now) {
  const std::lock_guard lock{mutex_};
  return claim_keys::find(*database_, team_id, key, now);
}

Result<> SqliteStore::remove_claim_key(const std::string& team_id, const std::string& key) {
  const std::lock_guard lock{mutex_};
  return claim_keys::remove(*database_, team_id, key);
}

Result<> SqliteStore::change_claim_answer(const std::string& team_id, const std::string& key,
                                          const std::string& answer) {
  const std::lock_guard lock{mutex_};
  return claim_keys::change_answer(*database_, team_id, key, answer);
}

Result<> SqliteStore::configure_sandbox(const Sandbox& sandbox, const Expected& expected,
                                        const Event& event) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, false));
  TRY_DO(configure_row(*database_, sandbox, expected));
  if (database_->changed_rows() == 0) {
    return explain_unchanged(sandbox.id, expected);
  }
  TRY_DO(append_event(event));
  return transaction->commit();
}

Result<> SqliteStore::change_sandbox(const std::string& id, const Expected& expected,
                                     const Transition& transition, const Event& event,
                                     Durability durability) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, durability == Durability::kDurable));
  {
    TRY(auto row, database_->prepare("UPDATE sandboxes SET status = ?, generation = ?, failure = ?,"
                                     " updated_at = ?,"
                                     " expires_at = CASE WHEN ? THEN ? ELSE expires_at END"
                                     " WHERE id = ? AND status = ? AND generation = ?"));
    row->bind(status_name(transition.status)).bind(transition.generation);
    row->bind(transition.failure).bind(transition.updated_at);
    row->bind(std::int64_t{transition.sets_expiry}).bind(transition.expires_at).bind(id);
    TRY_DO(row->bind(status_name(expected.status)).bind(expected.generation).run());
  }
  if (database_->changed_rows() == 0) {
    return explain_unchanged(id, expected);
  }
  TRY_DO(append_event(event));
  return transaction->commit();
}

Result<> SqliteStore::remove_sandbox(const std::string& id, const Expected& expected,
                                     const Event& event) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, false));
  {
    TRY(auto row, database_->prepare("DELETE FROM sandboxes"
                                     " WHERE id = ? AND status = ? AND generation = ?"));
    TRY_DO(row->bind(id).bind(status_name(expected.status)).bind(expected.generation).run());
  }
  if (database_->changed_rows() == 0) {
    return explain_unchanged(id, expected);
  }
  TRY_DO(append_event(event));
  TRY_DO(relative_rows::bury(*database_, id, event.at));
  TRY_DO(record_rows::remove_of_owner(*database_, id));
  return transaction->commit();
}

Result<> SqliteStore::append_event(const Event& event) {
  {
    TRY(auto statement, database_->prepare("INSERT INTO outbox (kind, subject, team_id, at, detail)"
                                           " VALUES (?, ?, ?, ?, ?)"));
    statement->bind(event.kind).bind(event.subject).bind(event.team_id).bind(event.at);
    TRY_DO(statement->bind(event.detail).run());
  }
  TRY(auto trim, database_->prepare("DELETE FROM outbox WHERE sequence <="
                                    " (SELECT max(sequence) FROM outbox) - ?"));
  return trim->bind(kMaxOutboxEvents).run();
}

Result<> SqliteStore::explain_unchanged(const std::string& id, const Expected& expected) {
  TRY(auto statement, database_->prepare("SELECT status, generation FROM sandboxes WHERE id = ?"));
  TRY(const bool row, statement->bind(id).step());
  if (!row) {
    return fail(Code::kNotFound, concat("there is no sandbox ", id), "sandbox_not_found");
  }
  const std::string status = statement->text();
  return fail(
      Code::kAborted,
      concat("sandbox ", id, " is ", status, " (generation ", statement->integer(), "), not ",
             status_name(expected.status), " (generation ", expected.generation, ")"),
      "changed");
}

Result<Sandbox> SqliteStore::find_sandbox(const std::string& id) {
  const std::lock_guard lock{mutex_};
  TRY(auto statement, database_->prepare(kFindSandbox));
  TRY(const bool row, statement->bind(id).step());
  if (!row) {
    return fail(Code::kNotFound, concat("there is no sandbox ", id), "sandbox_not_found");
  }
  return read_sandbox(*statement);
}

Result<std::vector<Sandbox>> SqliteStore::list_sandboxes() {
  const std::lock_guard lock{mutex_};
  TRY(auto statement, database_->prepare(kListSandboxes));
  std::vector<Sandbox> sandboxes;
  for (;;) {
    TRY(const bool row, statement->step());
    if (!row) {
      return sandboxes;
    }
    TRY(auto sandbox, read_sandbox(*statement));
    sandboxes.push_back(std::move(sandbox));
  }
}

Result<> SqliteStore::insert_snapshot(const Snapshot& snapshot,
                                      const std::optional<ClaimKey>& key) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, true));
  TRY_DO(snapshot_rows::insert(*database_, snapshot));
  TRY_DO(relative_rows::add_snapshot(*database_, snapshot));
  if (key) {
    TRY_DO(claim_keys::insert(*database_, *key));
  }
  return transaction->commit();
}

Result<> SqliteStore::remove_snapshot(const std::string& id, UnixMillis at) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, true));
  TRY_DO(snapshot_rows::remove(*database_, id));
  TRY_DO(relative_rows::bury(*database_, id, at));
  return transaction->commit();
}

Result<> SqliteStore::note_restore(const std::string& sandbox_id,
                                   const Relative::Restore& restore) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, true));
  TRY_DO(relative_rows::note_restore(*database_, sandbox_id, restore));
  return transaction->commit();
}

Result<std::vector<Relative>> SqliteStore::list_relatives(const std::string& team_id) {
  const std::lock_guard lock{mutex_};
  return relative_rows::list(*database_, team_id);
}

Result<std::vector<Snapshot>> SqliteStore::list_snapshots() {
  const std::lock_guard lock{mutex_};
  return snapshot_rows::list(*database_);
}

Result<std::vector<OutboxEvent>> SqliteStore::read_outbox(std::int64_t after, std::size_t limit) {
  const std::lock_guard lock{mutex_};
  TRY(auto statement, database_->prepare("SELECT sequence, kind, subject, team_id, at, detail"
                                         " FROM outbox WHERE sequence > ? ORDER BY sequence"
                                         " LIMIT ?"));
  statement->bind(after).bind(static_cast<std::int64_t>(std::min(limit, kMaxOutboxPage)));
  std::vector<OutboxEvent> events;
  for (;;) {
    TRY(const bool row, statement->step());
    if (!row) {
      return events;
    }
    OutboxEvent& event = events.emplace_back();
    event.sequence = statement->integer();
    event.event.kind = statement->text();
    event.event.subject = statement->text();
    event.event.team_id = statement->text();
    event.event.at = statement->integer();
    event.event.detail = statement->text();
  }
}

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path) {
  TRY_DO(refuse_lost(path));
  auto opened = Database::open(path);
  if (!opened) {
    return fail(with_advice(std::move(opened).error(), path));
  }
  auto database = *std::move(opened);
  if (auto sound = refuse_damaged(*database); !sound) {
    return fail(with_advice(std::move(sound).error(), path));
  }
  if (auto migrated = migrate(*database, SystemWallClock{}.now()); !migrated) {
    return fail(std::move(migrated).error().note(concat("opening the database ", path)));
  }
  TRY_DO(mark_kept(path));
  TRY(auto copier, LogCopier::start(path));
  return std::make_unique<SqliteStore>(std::move(database), std::move(copier));
}

}  // namespace atl::store
