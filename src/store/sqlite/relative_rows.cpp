#include "store/sqlite/relative_rows.h"

#include <map>

namespace atl::store::relative_rows {
namespace {

constexpr std::string_view kSandboxKind = "sandbox";
constexpr std::string_view kSnapshotKind = "snapshot";

// A parent that is gone already stays unknown.
Result<> adopt_parent(Database& database, const std::string& id) {
  TRY(auto row, database.prepare("INSERT INTO relatives (id, team_id, kind, parent_id, cause, name,"
                                 " template, created_at)"
                                 " SELECT id, team_id, 'sandbox', '', 'template',"
                                 " coalesce(name, ''), template, created_at FROM sandboxes"
                                 " WHERE id = ? ON CONFLICT (id) DO NOTHING"));
  return row->bind(id).run();
}

Result<> insert(Database& database, const Relative& relative) {
  TRY_DO(adopt_parent(database, relative.parent_id));
  TRY(auto row, database.prepare("INSERT INTO relatives (id, team_id, kind, parent_id, cause, name,"
                                 " template, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  row->bind(relative.id).bind(relative.team_id);
  row->bind(relative.kind == Relative::Kind::kSandbox ? kSandboxKind : kSnapshotKind);
  row->bind(relative.parent_id).bind(relative.cause).bind(relative.name);
  return row->bind(relative.template_name).bind(relative.created_at).run();
}

Result<bool> has_children(Database& database, const std::string& id) {
  TRY(auto row, database.prepare("SELECT 1 FROM relatives WHERE parent_id = ? LIMIT 1"));
  return row->bind(id).step();
}

struct Place {
  std::string team_id;
  std::string parent_id;
  bool deleted = false;
};

Result<std::optional<Place>> find(Database& database, const std::string& id) {
  TRY(auto row,
      database.prepare("SELECT team_id, parent_id, deleted_at FROM relatives WHERE id = ?"));
  TRY(const bool found, row->bind(id).step());
  if (!found) {
    return std::nullopt;
  }
  Place place;
  place.team_id = row->text();
  place.parent_id = row->text();
  place.deleted = row->optional_integer().has_value();
  return place;
}

Result<> forget(Database& database, const std::string& id) {
  {
    TRY(auto restores, database.prepare("DELETE FROM restores WHERE sandbox_id = ?"));
    TRY_DO(restores->bind(id).run());
  }
  TRY(auto row, database.prepare("DELETE FROM relatives WHERE id = ?"));
  return row->bind(id).run();
}

// One team's deletions never cost another its history.
Result<> forget_oldest_deleted(Database& database, const std::string& team_id) {
  TRY(auto row, database.prepare("DELETE FROM relatives WHERE team_id = ?1"
                                 " AND deleted_at IS NOT NULL AND sequence <="
                                 " (SELECT sequence FROM relatives"
                                 " WHERE team_id = ?1 AND deleted_at IS NOT NULL"
                                 " ORDER BY sequence DESC LIMIT 1 OFFSET ?2)"));
  TRY_DO(row->bind(team_id).bind(kMaxDeletedAncestors).run());
  if (database.changed_rows() == 0) {
    return {};
  }
  TRY(auto restores, database.prepare("DELETE FROM restores WHERE sandbox_id NOT IN"
                                      " (SELECT id FROM relatives)"));
  return restores->run();
}

Result<std::map<std::string, std::vector<Relative::Restore>>> list_restores(
    Database& database, const std::string& team_id) {
  TRY(auto row, database.prepare("SELECT sandbox_id, snapshot_id, at FROM restores"
                                 " WHERE sandbox_id IN (SELECT id FROM relatives WHERE team_id = ?)"
                                 " ORDER BY sequence"));
  row->bind(team_id);
  std::map<std::string, std::vector<Relative::Restore>> restores;
  for (;;) {
    TRY(const bool found, row->step());
    if (!found) {
      return restores;
    }
    auto& of_sandbox = restores[row->text()];
    std::string snapshot_id = row->text();
    of_sandbox.push_back({std::move(snapshot_id), row->integer()});
  }
}

}  // namespace

Result<> add_sandbox(Database& database, const Sandbox& sandbox, const Descent& descent) {
  return insert(database, {.id = sandbox.id,
                           .team_id = sandbox.team_id,
                           .parent_id = descent.parent_id,
                           .cause = descent.cause,
                           .name = sandbox.name,
                           .template_name = sandbox.template_name,
                           .created_at = sandbox.created_at});
}

Result<> add_snapshot(Database& database, const Snapshot& snapshot) {
  return insert(database, {.id = snapshot.id,
                           .team_id = snapshot.team_id,
                           .kind = Relative::Kind::kSnapshot,
                           .parent_id = snapshot.sandbox_id,
                           .cause = snapshot.sandbox_id.empty() ? "import" : "snapshot",
                           .name = snapshot.name,
                           .template_name = snapshot.template_name,
                           .created_at = snapshot.created_at});
}

Result<> note_restore(Database& database, const std::string& sandbox_id,
                      const Relative::Restore& restore) {
  TRY_DO(adopt_parent(database, sandbox_id));
  {
    TRY(auto row,
        database.prepare("INSERT INTO restores (sandbox_id, snapshot_id, at) VALUES (?, ?, ?)"));
    TRY_DO(row->bind(sandbox_id).bind(restore.snapshot_id).bind(restore.at).run());
  }
  TRY(auto trim, database.prepare("DELETE FROM restores WHERE sandbox_id = ?1 AND sequence <="
                                  " (SELECT sequence FROM restores WHERE sandbox_id = ?1"
                                  " ORDER BY sequence DESC LIMIT 1 OFFSET ?2)"));
  return trim->bind(sandbox_id).bind(kMaxRestoresKept).run();
}

Result<> bury(Database& database, const std::string& id, UnixMillis at) {
  TRY(auto place, find(database, id));
  if (!place) {
    return {};
  }
  TRY(const bool needed, has_children(database, id));
  if (needed) {
    {
      TRY(auto row, database.prepare("UPDATE relatives SET deleted_at = ?"
                                     " WHERE id = ? AND deleted_at IS NULL"));
      TRY_DO(row->bind(at).bind(id).run());
    }
    return forget_oldest_deleted(database, place->team_id);
  }
  TRY_DO(forget(database, id));
  while (!place->parent_id.empty()) {
    const std::string ancestor = place->parent_id;
    TRY(place, find(database, ancestor));
    if (!place || !place->deleted) {
      return {};
    }
    TRY(const bool still_needed, has_children(database, ancestor));
    if (still_needed) {
      return {};
    }
    TRY_DO(forget(database, ancestor));
  }
  return {};
}

Result<std::vector<Relative>> list(Database& database, const std::string& team_id) {
  TRY(auto restores, list_restores(database, team_id));
  TRY(auto row, database.prepare("SELECT id, kind, parent_id, cause, name, template, created_at,"
                                 " deleted_at FROM relatives WHERE team_id = ?"
                                 " ORDER BY created_at, sequence"));
  row->bind(team_id);
  std::vector<Relative> relatives;
  for (;;) {
    TRY(const bool found, row->step());
    if (!found) {
      return relatives;
    }
    Relative& relative = relatives.emplace_back();
    relative.id = row->text();
    relative.team_id = team_id;
    relative.kind =
        row->text() == kSnapshotKind ? Relative::Kind::kSnapshot : Relative::Kind::kSandbox;
    relative.parent_id = row->text();
    relative.cause = row->text();
    relative.name = row->text();
    relative.template_name = row->text();
    relative.created_at = row->integer();
    relative.deleted_at = row->optional_integer();
    if (const auto of_it = restores.find(relative.id); of_it != restores.end()) {
      relative.restores = std::move(of_it->second);
    }
  }
}

}  // namespace atl::store::relative_rows
