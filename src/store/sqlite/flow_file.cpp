// One connection behind one mutex, as the store has it. Revisions come from a counter that begins
// behind the greatest one in the file, so they grow also over restarts.
#include "store/flow_file.h"

#include <stdio.h>

#include <map>
#include <mutex>

#include "base/log.h"
#include "base/strings.h"
#include "store/sqlite/database.h"
#include "store/sqlite/soundness.h"

namespace atl::store {
namespace {

constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS flows (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, revision INTEGER NOT NULL, id TEXT NOT NULL UNIQUE,
  sandbox_id TEXT NOT NULL, team_id TEXT NOT NULL, began_at INTEGER NOT NULL, kind TEXT NOT NULL,
  protocol TEXT NOT NULL, name TEXT NOT NULL, outcome TEXT NOT NULL, rule TEXT NOT NULL,
  context_id TEXT NOT NULL, detail TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS flows_by_sandbox ON flows (sandbox_id);
CREATE INDEX IF NOT EXISTS flows_by_revision ON flows (revision);
CREATE INDEX IF NOT EXISTS flows_by_age ON flows (began_at);
CREATE TABLE IF NOT EXISTS traffic (
  sandbox_id TEXT NOT NULL, team_id TEXT NOT NULL, bytes_out INTEGER NOT NULL,
  bytes_in INTEGER NOT NULL, flows INTEGER NOT NULL, denied INTEGER NOT NULL,
  revision INTEGER NOT NULL, PRIMARY KEY (team_id, sandbox_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS traffic_by_revision ON traffic (revision);
CREATE TABLE IF NOT EXISTS approvals (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, sandbox_id TEXT NOT NULL,
  team_id TEXT NOT NULL, state TEXT NOT NULL, asked_at INTEGER NOT NULL, detail TEXT NOT NULL
) STRICT;
)";
// Bumped with the tables; a file of another version is put aside.
constexpr std::int64_t kVersion = 1;

// Rows of one sandbox that are written before its share is looked at, and of all.
constexpr std::int64_t kTrimSandboxEvery = 256;
constexpr std::int64_t kTrimAllEvery = 4096;

class SqliteFlowFile final : public FlowFile {
 public:
  SqliteFlowFile(std::unique_ptr<Database> database, FlowRetention retention)
      : database_(std::move(database)), retention_(retention) {}

  Result<> prepare();
  Result<> write(const FlowBatch& batch) override;
  Result<> trim(UnixMillis now) override;
  Result<std::vector<FlowRow>> newest(const FlowFilter& filter, std::int64_t before,
                                      std::size_t limit) override;
  Result<std::vector<FlowRow>> written_after(const FlowFilter& filter, std::int64_t revision,
                                             std::size_t limit) override;
  Result<std::optional<FlowRow>> find(const std::string& team_id, const std::string& id) override;
  std::int64_t last_revision() override {
    const std::lock_guard lock{mutex_};
    return revision_;
  }
  Result<Traffic> traffic(const std::string& team_id, const std::string& sandbox_id) override;
  Result<std::vector<ApprovalRow>> approvals(const ApprovalFilter& filter, std::int64_t before,
                                             std::size_t limit) override;

 private:
  Result<> find_revision();
  Result<> put(const FlowRow& row);
  Result<> add(const TrafficRow& row);
  Result<> put(const ApprovalRow& row);
  Result<> trim_sandbox(const std::string& sandbox_id);
  Result<> trim_written();
  Result<std::vector<FlowRow>> read(const char* sql, const FlowFilter& filter, std::int64_t bound,
                                    std::size_t limit);

  std::mutex mutex_;
  std::unique_ptr<Database> database_;
  const FlowRetention retention_;
  std::int64_t revision_ = 0;
  std::map<std::string, std::int64_t> written_;  // since their share was looked at
  std::int64_t all_written_ = 0;
};

// The columns in the order of FlowRow.
FlowRow read_flow(Statement& row) {
  FlowRow flow;
  flow.sequence = row.integer();
  flow.revision = row.integer();
  flow.id = row.text();
  flow.sandbox_id = row.text();
  flow.team_id = row.text();
  flow.began_at = row.integer();
  flow.kind = row.text();
  flow.protocol = row.text();
  flow.name = row.text();
  flow.outcome = row.text();
  flow.rule = row.text();
  flow.context_id = row.text();
  flow.detail = row.text();
  return flow;
}

#define FLOW_COLUMNS                                                                       \
  "sequence, revision, id, sandbox_id, team_id, began_at, kind, protocol, name, outcome, " \
  "rule, context_id, detail"
// Parameters 1 to 11. A pattern of names ends as its suffix and is the suffix without the dot.
#define FLOW_FILTER                                                                            \
  "(?1 = '' OR team_id = ?1) AND began_at >= ?2 AND began_at <= ?3 AND (?4 = '' OR kind = ?4)" \
  " AND (?5 = '' OR protocol = ?5) AND (?6 = '' OR name = ?6)"                                 \
  " AND (?7 = '' OR outcome = ?7) AND (?8 = '' OR rule = ?8)"                                  \
  " AND (?9 = '' OR context_id = ?9)"                                                          \
  " AND (?10 = '' OR name = substr(?10, 2) OR substr(name, -length(?10)) = ?10)"

constexpr const char* kNewestOfSandbox = "SELECT " FLOW_COLUMNS
                                         " FROM flows WHERE sandbox_id = ?11 AND sequence < ?12"
                                         " AND " FLOW_FILTER " ORDER BY sequence DESC LIMIT ?13";
constexpr const char* kNewest =
    "SELECT " FLOW_COLUMNS " FROM flows WHERE ?11 = '' AND sequence < ?12 AND " FLOW_FILTER
    " ORDER BY sequence DESC LIMIT ?13";
constexpr const char* kWrittenAfter =
    "SELECT " FLOW_COLUMNS
    " FROM flows WHERE (?11 = '' OR sandbox_id = ?11) AND revision > ?12 AND " FLOW_FILTER
    " ORDER BY revision LIMIT ?13";

Result<> SqliteFlowFile::prepare() {
  std::int64_t version = 0;
  {
    TRY(auto row, database_->prepare("PRAGMA user_version"));
    TRY(const bool found, row->step());
    version = found ? row->integer() : 0;
  }
  if (version != 0 && version != kVersion) {
    return fail(Code::kDataLoss, concat("it has version ", version, ", not ", kVersion));
  }
  TRY_DO(refuse_damaged(*database_));
  TRY_DO(database_->execute(kSchema));
  TRY_DO(database_->execute("PRAGMA user_version = 1"));
  TRY_DO(find_revision());
  {
    // Their connections ended with the process that had them.
    TRY(auto row, database_->prepare(
                      "UPDATE flows SET outcome = 'failed', revision = ? + sequence,"
                      " detail = json_set(detail, '$.reason', 'the API process ended meanwhile')"
                      " WHERE outcome = 'open'"));
    TRY_DO(row->bind(revision_).run());
  }
  return find_revision();
}

Result<> SqliteFlowFile::find_revision() {
  TRY(auto row, database_->prepare("SELECT max(coalesce((SELECT max(revision) FROM flows), 0),"
                                   " coalesce((SELECT max(revision) FROM traffic), 0))"));
  TRY(const bool found, row->step());
  revision_ = found ? row->integer() : 0;
  return {};
}

Result<> SqliteFlowFile::put(const FlowRow& row) {
  TRY(auto insert,
      database_->prepare("INSERT INTO flows (revision, id, sandbox_id, team_id, began_at, kind,"
                         " protocol, name, outcome, rule, context_id, detail)"
                         " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                         " ON CONFLICT (id) DO UPDATE SET revision = excluded.revision,"
                         " protocol = excluded.protocol, name = excluded.name,"
                         " outcome = excluded.outcome, rule = excluded.rule,"
                         " context_id = excluded.context_id, detail = excluded.detail"));
  insert->bind(++revision_).bind(row.id).bind(row.sandbox_id).bind(row.team_id).bind(row.began_at);
  insert->bind(row.kind).bind(row.protocol).bind(row.name).bind(row.outcome).bind(row.rule);
  TRY_DO(insert->bind(row.context_id).bind(row.detail).run());
  ++written_[row.sandbox_id];
  ++all_written_;
  return {};
}

Result<> SqliteFlowFile::add(const TrafficRow& row) {
  TRY(auto add, database_->prepare(
                    "INSERT INTO traffic (sandbox_id, team_id, bytes_out, bytes_in, flows, denied,"
                    " revision) VALUES (?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (team_id, sandbox_id) DO UPDATE SET"
                    " bytes_out = bytes_out + excluded.bytes_out,"
                    " bytes_in = bytes_in + excluded.bytes_in, flows = flows + excluded.flows,"
                    " denied = denied + excluded.denied, revision = excluded.revision"));
  const Traffic& traffic = row.traffic;
  add->bind(row.sandbox_id).bind(row.team_id);
  add->bind(static_cast<std::int64_t>(traffic.bytes_out));
  add->bind(static_cast<std::int64_t>(traffic.bytes_in));
  add->bind(static_cast<std::int64_t>(traffic.flows));
  add->bind(static_cast<std::int64_t>(traffic.denied));
  return add->bind(++revision_).run();
}

Result<> SqliteFlowFile::put(const ApprovalRow& row) {
  TRY(auto insert, database_->prepare("INSERT INTO approvals (id, sandbox_id, team_id, state,"
                                      " asked_at, detail) VALUES (?, ?, ?, ?, ?, ?)"
                                      " ON CONFLICT (id) DO NOTHING"));
  insert->bind(row.id).bind(row.sandbox_id).bind(row.team_id).bind(row.state);
  return insert->bind(row.asked_at).bind(row.detail).run();
}

Result<> SqliteFlowFile::write(const FlowBatch& batch) {
  const std::lock_guard lock{mutex_};
  TRY(auto transaction, Transaction::begin(*database_, false));
  for (const FlowRow& row : batch.flows) {
    TRY_DO(put(row));
  }
  for (const TrafficRow& row : batch.traffic) {
    TRY_DO(add(row));
    TRY_DO(add({.sandbox_id = {}, .team_id = row.team_id, .traffic = row.traffic}));
  }
  for (const ApprovalRow& row : batch.approvals) {
    TRY_DO(put(row));
  }
  TRY_DO(trim_written());
  return transaction->commit();
}

Result<> SqliteFlowFile::trim_sandbox(const std::string& sandbox_id) {
  TRY(auto row, database_->prepare("DELETE FROM flows WHERE sandbox_id = ?1 AND sequence <="
                                   " (SELECT sequence FROM flows WHERE sandbox_id = ?1"
                                   " ORDER BY sequence DESC LIMIT 1 OFFSET ?2)"));
  return row->bind(sandbox_id).bind(retention_.rows_per_sandbox).run();
}

Result<> SqliteFlowFile::trim_written() {
  for (auto it = written_.begin(); it != written_.end();) {
    if (it->second < std::min(kTrimSandboxEvery, retention_.rows_per_sandbox)) {
      ++it;
      continue;
    }
    TRY_DO(trim_sandbox(it->first));
    it = written_.erase(it);
  }
  if (all_written_ < std::min(kTrimAllEvery, retention_.rows)) {
    return {};
  }
  all_written_ = 0;
  for (const auto& [sandbox_id, count] : written_) {
    TRY_DO(trim_sandbox(sandbox_id));
  }
  written_.clear();
  TRY(auto row, database_->prepare("DELETE FROM flows WHERE sequence <= (SELECT sequence FROM flows"
                                   " ORDER BY sequence DESC LIMIT 1 OFFSET ?)"));
  return row->bind(retention_.rows).run();
}

Result<> SqliteFlowFile::trim(UnixMillis now) {
  const std::lock_guard lock{mutex_};
  {
    TRY(auto row, database_->prepare("DELETE FROM flows WHERE began_at < ?"));
    TRY_DO(row->bind(now - retention_.age_ms).run());
  }
  {
    TRY(auto row, database_->prepare("DELETE FROM traffic WHERE sandbox_id <> '' AND revision <="
                                     " (SELECT revision FROM traffic WHERE sandbox_id <> ''"
                                     " ORDER BY revision DESC LIMIT 1 OFFSET ?)"));
    TRY_DO(row->bind(kMaxTrafficTotals).run());
  }
  TRY(auto row, database_->prepare("DELETE FROM approvals WHERE sequence <= (SELECT sequence FROM"
                                   " approvals ORDER BY sequence DESC LIMIT 1 OFFSET ?)"));
  return row->bind(kMaxAnsweredApprovals).run();
}

Result<std::vector<FlowRow>> SqliteFlowFile::read(const char* sql, const FlowFilter& filter,
                                                  std::int64_t bound, std::size_t limit) {
  const bool pattern = filter.name.starts_with("*.");
  const std::string name = pattern ? "" : filter.name;
  const std::string suffix = pattern ? filter.name.substr(1) : "";
  const std::lock_guard lock{mutex_};
  TRY(auto row, database_->prepare(sql));
  row->bind(filter.team_id).bind(filter.from.value_or(INT64_MIN));
  row->bind(filter.until.value_or(INT64_MAX)).bind(filter.kind).bind(filter.protocol);
  row->bind(name).bind(filter.outcome).bind(filter.rule).bind(filter.context_id).bind(suffix);
  row->bind(filter.sandbox_id).bind(bound);
  row->bind(static_cast<std::int64_t>(std::min(limit, kMaxFlowPage)));
  std::vector<FlowRow> flows;
  for (;;) {
    TRY(const bool found, row->step());
    if (!found) {
      return flows;
    }
    flows.push_back(read_flow(*row));
  }
}

Result<std::vector<FlowRow>> SqliteFlowFile::newest(const FlowFilter& filter, std::int64_t before,
                                                    std::size_t limit) {
  return read(filter.sandbox_id.empty() ? kNewest : kNewestOfSandbox, filter,
              before == 0 ? INT64_MAX : before, limit);
}

Result<std::vector<FlowRow>> SqliteFlowFile::written_after(const FlowFilter& filter,
                                                           std::int64_t revision,
                                                           std::size_t limit) {
  return read(kWrittenAfter, filter, revision, limit);
}

Result<std::optional<FlowRow>> SqliteFlowFile::find(const std::string& team_id,
                                                    const std::string& id) {
  const std::lock_guard lock{mutex_};
  TRY(auto row,
      database_->prepare("SELECT " FLOW_COLUMNS " FROM flows WHERE id = ? AND team_id = ?"));
  TRY(const bool found, row->bind(id).bind(team_id).step());
  return found ? std::optional{read_flow(*row)} : std::nullopt;
}

Result<Traffic> SqliteFlowFile::traffic(const std::string& team_id, const std::string& sandbox_id) {
  const std::lock_guard lock{mutex_};
  TRY(auto row, database_->prepare("SELECT bytes_out, bytes_in, flows, denied FROM traffic"
                                   " WHERE team_id = ? AND sandbox_id = ?"));
  TRY(const bool found, row->bind(team_id).bind(sandbox_id).step());
  Traffic traffic;
  if (found) {
    traffic.bytes_out = static_cast<std::uint64_t>(row->integer());
    traffic.bytes_in = static_cast<std::uint64_t>(row->integer());
    traffic.flows = static_cast<std::uint64_t>(row->integer());
    traffic.denied = static_cast<std::uint64_t>(row->integer());
  }
  return traffic;
}

Result<std::vector<ApprovalRow>> SqliteFlowFile::approvals(const ApprovalFilter& filter,
                                                           std::int64_t before, std::size_t limit) {
  const std::lock_guard lock{mutex_};
  TRY(auto row,
      database_->prepare("SELECT sequence, id, sandbox_id, team_id, state, asked_at, detail"
                         " FROM approvals WHERE team_id = ?1 AND (?2 = '' OR sandbox_id = ?2)"
                         " AND (?3 = '' OR state = ?3) AND sequence < ?4"
                         " ORDER BY sequence DESC LIMIT ?5"));
  row->bind(filter.team_id).bind(filter.sandbox_id).bind(filter.state);
  row->bind(before == 0 ? INT64_MAX : before);
  row->bind(static_cast<std::int64_t>(std::min(limit, kMaxFlowPage)));
  std::vector<ApprovalRow> rows;
  for (;;) {
    TRY(const bool found, row->step());
    if (!found) {
      return rows;
    }
    ApprovalRow approval;
    approval.sequence = row->integer();
    approval.id = row->text();
    approval.sandbox_id = row->text();
    approval.team_id = row->text();
    approval.state = row->text();
    approval.asked_at = row->integer();
    approval.detail = row->text();
    rows.push_back(std::move(approval));
  }
}

Result<std::unique_ptr<FlowFile>> open_once(const std::string& path, FlowRetention retention) {
  TRY(auto database, Database::open(path));
  auto file = std::make_unique<SqliteFlowFile>(std::move(database), retention);
  TRY_DO(file->prepare());
  return file;
}

// With its side files, which belong to it.
Result<> put_aside(const std::string& path) {
  const std::string aside = concat(path, ".damaged");
  for (const char* suffix : {"-wal", "-shm"}) {
    ::remove(concat(aside, suffix).c_str());
    (void)::rename(concat(path, suffix).c_str(), concat(aside, suffix).c_str());
  }
  if (::rename(path.c_str(), aside.c_str()) != 0) {
    return fail_errno(concat("putting ", path, " aside"));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<FlowFile>> open_sqlite_flow_file(const std::string& path,
                                                        FlowRetention retention) {
  auto opened = open_once(path, retention);
  if (opened || opened.error().code != Code::kDataLoss) {
    return opened;
  }
  LOG_ERROR("the flow log is damaged; it is put aside and a new one begins", {"file", path},
            {"error", opened.error()});
  TRY_DO(put_aside(path));
  return open_once(path, retention);
}

}  // namespace atl::store
