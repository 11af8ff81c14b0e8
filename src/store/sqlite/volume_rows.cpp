#include "store/sqlite/volume_rows.h"

#include "base/strings.h"

namespace atl::store::volume_rows {
namespace {

Result<Volume> read(Statement& row) {
  Volume volume;
  volume.id = row.text();
  volume.team_id = row.text();
  volume.user_id = row.text();
  volume.source_volume_id = row.text();
  volume.ready = row.integer() != 0;
  const auto mode = parse_access_mode(row.text());
  if (!mode) {
    return fail(Code::kDataLoss, concat("volume ", volume.id, " has an unknown access mode"),
                "store");
  }
  volume.access_mode = *mode;
  volume.posix_uid = static_cast<std::uint32_t>(row.integer());
  volume.posix_gid = static_cast<std::uint32_t>(row.integer());
  volume.disk_bytes = static_cast<std::uint64_t>(row.integer());
  volume.backend = row.text();
  volume.settings = row.text();
  volume.created_at = row.integer();
  volume.updated_at = row.integer();
  return volume;
}

}  // namespace

Result<> put(Database& database, const Volume& volume) {
  TRY(auto row, database.prepare("INSERT OR REPLACE INTO volumes (id, team_id, user_id,"
                                 " source_volume_id, ready, access_mode, posix_uid, posix_gid,"
                                 " disk_bytes, backend, settings, created_at, updated_at)"
                                 " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  row->bind(volume.id).bind(volume.team_id).bind(volume.user_id).bind(volume.source_volume_id);
  row->bind(std::int64_t{volume.ready}).bind(access_mode_name(volume.access_mode));
  row->bind(std::int64_t{volume.posix_uid}).bind(std::int64_t{volume.posix_gid});
  row->bind(static_cast<std::int64_t>(volume.disk_bytes)).bind(volume.backend);
  return row->bind(volume.settings).bind(volume.created_at).bind(volume.updated_at).run();
}

Result<> remove(Database& database, const std::string& id) {
  {
    TRY(auto snapshots, database.prepare("DELETE FROM volume_snapshots WHERE volume_id = ?"));
    TRY_DO(snapshots->bind(id).run());
  }
  TRY(auto row, database.prepare("DELETE FROM volumes WHERE id = ?"));
  return row->bind(id).run();
}

Result<std::vector<Volume>> list(Database& database) {
  TRY(auto row, database.prepare("SELECT id, team_id, user_id, source_volume_id, ready,"
                                 " access_mode, posix_uid, posix_gid, disk_bytes, backend,"
                                 " settings, created_at, updated_at"
                                 " FROM volumes ORDER BY created_at, id"));
  std::vector<Volume> volumes;
  for (;;) {
    TRY(const bool found, row->step());
    if (!found) {
      return volumes;
    }
    TRY(auto volume, read(*row));
    volumes.push_back(std::move(volume));
  }
}

Result<> insert_snapshot(Database& database, const VolumeSnapshot& snapshot) {
  TRY(auto row, database.prepare("INSERT INTO volume_snapshots (id, team_id, volume_id, name,"
                                 " description, size_bytes, created_at, expires_at)"
                                 " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  row->bind(snapshot.id).bind(snapshot.team_id).bind(snapshot.volume_id).bind(snapshot.name);
  row->bind(snapshot.description).bind(static_cast<std::int64_t>(snapshot.size_bytes));
  return row->bind(snapshot.created_at).bind(snapshot.expires_at).run();
}

Result<> remove_snapshot(Database& database, const std::string& id) {
  TRY(auto row, database.prepare("DELETE FROM volume_snapshots WHERE id = ?"));
  return row->bind(id).run();
}

Result<std::vector<VolumeSnapshot>> list_snapshots(Database& database) {
  TRY(auto row, database.prepare("SELECT id, team_id, volume_id, name, description, size_bytes,"
                                 " created_at, expires_at"
                                 " FROM volume_snapshots ORDER BY created_at, id"));
  std::vector<VolumeSnapshot> snapshots;
  for (;;) {
    TRY(const bool found, row->step());
    if (!found) {
      return snapshots;
    }
    VolumeSnapshot& snapshot = snapshots.emplace_back();
    snapshot.id = row->text();
    snapshot.team_id = row->text();
    snapshot.volume_id = row->text();
    snapshot.name = row->text();
    snapshot.description = row->text();
    snapshot.size_bytes = static_cast<std::uint64_t>(row->integer());
    snapshot.created_at = row->integer();
    snapshot.expires_at = row->optional_integer();
  }
}

}  // namespace atl::store::volume_rows
