#include "store/sqlite/snapshot_rows.h"

#include "store/sqlite/columns.h"

namespace atl::store::snapshot_rows {

Result<> insert(Database& database, const Snapshot& snapshot) {
  const std::string layers = encode_list(snapshot.layers);
  const std::string env = encode_map(snapshot.env);
  TRY(auto row,
      database.prepare("INSERT INTO snapshots (id, team_id, sandbox_id, name, description,"
                       " template, layers, env, memory_bytes, cpu_millis, process_count,"
                       " disk_bytes, created_at, expires_at, ephemeral_tmp)"
                       " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  row->bind(snapshot.id).bind(snapshot.team_id).bind(snapshot.sandbox_id).bind(snapshot.name);
  row->bind(snapshot.description).bind(snapshot.template_name).bind(layers).bind(env);
  row->bind(static_cast<std::int64_t>(snapshot.limits.memory_bytes));
  row->bind(std::int64_t{snapshot.limits.cpu_millis});
  row->bind(std::int64_t{snapshot.limits.process_count});
  row->bind(static_cast<std::int64_t>(snapshot.limits.disk_bytes));
  row->bind(snapshot.created_at).bind(snapshot.expires_at);
  return row->bind(std::int64_t{snapshot.ephemeral_tmp}).run();
}

Result<> remove(Database& database, const std::string& id) {
  TRY(auto row, database.prepare("DELETE FROM snapshots WHERE id = ?"));
  return row->bind(id).run();
}

Result<std::vector<Snapshot>> list(Database& database) {
  TRY(auto row, database.prepare("SELECT id, team_id, sandbox_id, name, description, template,"
                                 " layers, env, memory_bytes, cpu_millis, process_count,"
                                 " disk_bytes, created_at, expires_at, ephemeral_tmp"
                                 " FROM snapshots ORDER BY created_at, id"));
  std::vector<Snapshot> snapshots;
  for (;;) {
    TRY(const bool found, row->step());
    if (!found) {
      return snapshots;
    }
    Snapshot& snapshot = snapshots.emplace_back();
    snapshot.id = row->text();
    snapshot.team_id = row->text();
    snapshot.sandbox_id = row->text();
    snapshot.name = row->text();
    snapshot.description = row->text();
    snapshot.template_name = row->text();
    TRY(snapshot.layers, decode_list(row->text()));
    TRY(snapshot.env, decode_map(row->text()));
    snapshot.limits.memory_bytes = static_cast<std::uint64_t>(row->integer());
    snapshot.limits.cpu_millis = static_cast<std::uint32_t>(row->integer());
    snapshot.limits.process_count = static_cast<std::uint32_t>(row->integer());
    snapshot.limits.disk_bytes = static_cast<std::uint64_t>(row->integer());
    snapshot.created_at = row->integer();
    snapshot.expires_at = row->optional_integer();
    snapshot.ephemeral_tmp = row->integer() != 0;
  }
}

}  // namespace atl::store::snapshot_rows
