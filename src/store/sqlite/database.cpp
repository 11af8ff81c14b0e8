#include "store/sqlite/database.h"

#include <fcntl.h>
#include <sqlite3.h>

#include "base/fault_point.h"
#include "base/fd.h"
#include "base/strings.h"

namespace atl::store {
namespace {

Code code_from_sqlite(int status) {
  switch (status & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Code::kUnavailable;
    case SQLITE_CONSTRAINT:
      return Code::kAlreadyExists;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return Code::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_IOERR:
      return Code::kDataLoss;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return Code::kPermissionDenied;
    default:
      return Code::kInternal;
  }
}

// busy_timeout is for a person with the sqlite3 tool; no second Atoll may open the same directory.
constexpr const char* kSettings =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
    "PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=1000;";
constexpr int kBusyTimeoutMs = 5000;

}  // namespace

Statement::~Statement() {
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
}

Statement& Statement::bind(std::string_view text) {
  // A null pointer would bind NULL, and an empty view may have one.
  bind_status_ |= sqlite3_bind_text64(handle_, next_parameter_++, text.empty() ? "" : text.data(),
                                      text.size(), SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind(std::int64_t value) {
  bind_status_ |= sqlite3_bind_int64(handle_, next_parameter_++, value);
  return *this;
}

Statement& Statement::bind(std::optional<std::int64_t> value) {
  if (value) {
    return bind(*value);
  }
  bind_status_ |= sqlite3_bind_null(handle_, next_parameter_++);
  return *this;
}

Statement& Statement::bind_blob(std::string_view bytes) {
  bind_status_ |= sqlite3_bind_blob64(handle_, next_parameter_++, bytes.empty() ? "" : bytes.data(),
                                      bytes.size(), SQLITE_STATIC);
  return *this;
}

Result<bool> Statement::step() {
  if (bind_status_ != SQLITE_OK) {
    return fail(database_.last_error("binding a value"));
  }
  next_column_ = 0;
  switch (sqlite3_step(handle_)) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return fail(database_.last_error("using the database"));
  }
}

Result<> Statement::run() {
  TRY(const bool row, step());
  CHECK(!row);
  return {};
}

std::string Statement::text() {
  const int column = next_column_++;
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(handle_, column));
  const int size = sqlite3_column_bytes(handle_, column);
  return bytes == nullptr ? std::string{} : std::string(bytes, static_cast<std::size_t>(size));
}

std::int64_t Statement::integer() {
  return sqlite3_column_int64(handle_, next_column_++);
}

std::optional<std::int64_t> Statement::optional_integer() {
  if (sqlite3_column_type(handle_, next_column_) == SQLITE_NULL) {
    ++next_column_;
    return std::nullopt;
  }
  return integer();
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
  // SQLite would create the file readable by everyone; its side files take the mode of this one.
  // One that is there is not opened: closing any descriptor of it would drop the locks that other
  // connections of this process have on it, and whoever came next would remove the log under them.
  if (!Fd{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)} && errno != EEXIST) {
    return fail_errno(concat("making the database ", path));
  }
  sqlite3* handle = nullptr;
  const int status =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> database{new Database{handle, path}};
  if (status != SQLITE_OK) {
    return fail(database->last_error(concat("opening the database ", path)));
  }
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  if (auto set = database->execute(kSettings); !set) {
    return fail(std::move(set).error().note(concat("opening the database ", path)));
  }
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) {
    sqlite3_finalize(statement);
  }
  sqlite3_close(handle_);
}

Result<std::unique_ptr<Statement>> Database::prepare(const char* sql) {
  sqlite3_stmt*& statement = statements_[sql];
  if (statement == nullptr) {
    if (sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
        SQLITE_OK) {
      return fail(last_error("preparing a statement"));
    }
  }
  return std::make_unique<Statement>(*this, statement);
}

Result<> Database::execute(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return fail(last_error("using the database"));
  }
  return {};
}

std::int64_t Database::changed_rows() const {
  return sqlite3_changes64(handle_);
}

Error Database::last_error(std::string_view what) const {
  const int status = handle_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(handle_);
  const char* text = handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_);
  return Error{code_from_sqlite(status), concat(what, ": ", text), "store"};
}

bool Database::in_transaction() const {
  return sqlite3_get_autocommit(handle_) == 0;
}

Result<> Database::commit() {
  TRY(auto statement, prepare("COMMIT"));
  TRY_DO(statement->run());
  ATOLL_FAULT_POINT("store.commit.done");
  return {};
}

void Database::leave_log_to(LogWatcher watcher, std::int64_t max_pages) {
  log_watcher_ = std::move(watcher);
  max_log_pages_ = max_pages;
  const auto committed = [](void* self, sqlite3*, const char*, int pages) {
    auto& database = *static_cast<Database*>(self);
    database.log_watcher_(pages);
    if (pages > database.max_log_pages_) {
      (void)database.copy_log();
    }
    return SQLITE_OK;
  };
  sqlite3_wal_hook(handle_, committed, this);  // in the place of SQLite's own
}

Result<> Database::copy_log() {
  if (sqlite3_wal_checkpoint_v2(handle_, "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr) !=
      SQLITE_OK) {
    return fail(last_error("copying the log into the database"));
  }
  return {};
}

Group::Group(Database& database) : database_(database) {
  CHECK(database.group_ == nullptr && !database.in_transaction());
  database.group_ = this;
}

Group::~Group() {
  database_.group_ = nullptr;
  if (database_.in_transaction()) {
    (void)database_.execute("ROLLBACK");
  }
}

Result<> Group::begin_part() {
  if (begun_ && !database_.in_transaction()) {
    return fail(Code::kAborted, "an earlier change took the whole group with it", "store");
  }
  if (!begun_) {
    TRY(auto begin, database_.prepare("BEGIN IMMEDIATE"));
    TRY_DO(begin->run());
    begun_ = true;
  }
  TRY(auto savepoint, database_.prepare("SAVEPOINT part"));
  return savepoint->run();
}

Result<> Group::end() {
  if (!begun_) {
    return {};
  }
  // SQLite rolls everything back by itself when it cannot go on, for want of room for example.
  if (!database_.in_transaction()) {
    return fail(Code::kUnavailable, "a change of the same moment could not be written", "store");
  }
  return database_.commit();
}

Result<std::unique_ptr<Transaction>> Transaction::begin(Database& database, bool durable) {
  if (database.group_ != nullptr) {
    TRY_DO(database.group_->begin_part());
    return std::unique_ptr<Transaction>{new Transaction{database, durable, true}};
  }
  std::unique_ptr<Transaction> transaction{new Transaction{database, durable, false}};
  transaction->open_ = false;
  TRY(auto statement, database.prepare("BEGIN IMMEDIATE"));
  TRY_DO(statement->run());
  transaction->open_ = true;
  return transaction;
}

Transaction::~Transaction() {
  // What fails here has already failed: SQLite rolls back by itself when it cannot go on.
  if (part_) {
    if (open_ && database_.in_transaction()) {
      (void)database_.execute("ROLLBACK TO part; RELEASE part");
    }
    return;
  }
  if (open_) {
    (void)database_.execute("ROLLBACK");
  }
}

Result<> Transaction::commit() {
  TRY_DO(ATOLL_FAULT_CHECK("store.commit.begun"));
  if (part_) {
    TRY(auto release, database_.prepare("RELEASE part"));
    TRY_DO(release->run());
    open_ = false;
    database_.group_->durable_ = database_.group_->durable_ || durable_;
    return {};
  }
  TRY_DO(database_.commit());
  open_ = false;
  return durable_ ? database_.sync_log() : Result<>{};
}

}  // namespace atl::store
