#include "store/sqlite/record_rows.h"

#include "base/strings.h"

namespace atl::store::record_rows {
namespace {

Result<> insert(Database& database, const Record& record) {
  TRY(auto row, database.prepare("INSERT INTO records (kind, id, team_id, owner_id, version, body,"
                                 " created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                                 " ON CONFLICT DO NOTHING"));
  row->bind(record.kind).bind(record.id).bind(record.team_id).bind(record.owner_id);
  row->bind(record.version).bind(record.body).bind(record.created_at).bind(record.updated_at);
  return row->run();
}

Result<> replace(Database& database, const Record& record, std::int64_t expected_version) {
  TRY(auto row, database.prepare("UPDATE records SET team_id = ?, owner_id = ?, version = ?,"
                                 " body = ?, created_at = ?, updated_at = ?"
                                 " WHERE kind = ? AND id = ? AND version = ?"));
  row->bind(record.team_id).bind(record.owner_id).bind(record.version).bind(record.body);
  row->bind(record.created_at).bind(record.updated_at).bind(record.kind).bind(record.id);
  return row->bind(expected_version).run();
}

}  // namespace

Result<> put(Database& database, const Record& record, std::int64_t expected_version) {
  TRY_DO(expected_version == 0 ? insert(database, record)
                               : replace(database, record, expected_version));
  if (database.changed_rows() == 0) {
    return fail(Code::kAborted, concat(record.kind, " ", record.id, " was changed meanwhile"),
                "changed");
  }
  return {};
}

Result<> remove(Database& database, const std::string& kind, const std::string& id) {
  TRY(auto row, database.prepare("DELETE FROM records WHERE kind = ? AND id = ?"));
  return row->bind(kind).bind(id).run();
}

Result<> remove_of_owner(Database& database, const std::string& owner_id) {
  TRY(auto row, database.prepare("DELETE FROM records WHERE owner_id = ? AND owner_id <> ''"));
  return row->bind(owner_id).run();
}

Result<std::vector<Record>> list(Database& database, const std::string& kind) {
  TRY(auto row, database.prepare("SELECT kind, id, team_id, owner_id, version, body, created_at,"
                                 " updated_at FROM records WHERE kind = ?"
                                 " ORDER BY created_at, id"));
  row->bind(kind);
  std::vector<Record> records;
  for (;;) {
    TRY(const bool found, row->step());
    if (!found) {
      return records;
    }
    Record record;
    record.kind = row->text();
    record.id = row->text();
    record.team_id = row->text();
    record.owner_id = row->text();
    record.version = row->integer();
    record.body = row->text();
    record.created_at = row->integer();
    record.updated_at = row->integer();
    records.push_back(std::move(record));
  }
}

}  // namespace atl::store::record_rows
