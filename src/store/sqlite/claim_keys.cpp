#include "store/sqlite/claim_keys.h"

namespace atl::store::claim_keys {

Result<> insert(Database& database, const ClaimKey& key) {
  {
    TRY(auto old, database.prepare("DELETE FROM claim_keys WHERE created_at <= ?"));
    TRY_DO(old->bind(key.created_at - kClaimKeyMs).run());
  }
  {
    TRY(auto row, database.prepare("INSERT INTO claim_keys (team_id, key, body_sha256, answer,"
                                   " created_at) VALUES (?, ?, ?, ?, ?)"));
    row->bind(key.team_id).bind(key.key).bind_blob(key.body_sha256).bind(key.answer);
    TRY_DO(row->bind(key.created_at).run());
  }
  TRY(auto trim, database.prepare("DELETE FROM claim_keys WHERE sequence <="
                                  " (SELECT max(sequence) FROM claim_keys) - ?"));
  return trim->bind(kMaxClaimKeys).run();
}

Result<std::optional<ClaimKey>> find(Database& database, const std::string& team_id,
                                     const std::string& key, UnixMillis now) {
  TRY(auto row, database.prepare("SELECT team_id, key, body_sha256, answer, created_at"
                                 " FROM claim_keys"
                                 " WHERE team_id = ? AND key = ? AND created_at > ?"));
  TRY(const bool found, row->bind(team_id).bind(key).bind(now - kClaimKeyMs).step());
  if (!found) {
    return std::nullopt;
  }
  ClaimKey value;
  value.team_id = row->text();
  value.key = row->text();
  value.body_sha256 = row->text();
  value.answer = row->text();
  value.created_at = row->integer();
  return value;
}

Result<> change_answer(Database& database, const std::string& team_id, const std::string& key,
                       const std::string& answer) {
  TRY(auto row, database.prepare("UPDATE claim_keys SET answer = ? WHERE team_id = ? AND key = ?"));
  return row->bind(answer).bind(team_id).bind(key).run();
}

Result<> remove(Database& database, const std::string& team_id, const std::string& key) {
  TRY(auto row, database.prepare("DELETE FROM claim_keys WHERE team_id = ? AND key = ?"));
  return row->bind(team_id).bind(key).run();
}

}  // namespace atl::store::claim_keys
