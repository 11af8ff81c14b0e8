// The SQLite C API as owners and Results: one connection, statements prepared once and reused.
//
// SQLite's codes become Errors here and nowhere else. A Statement is borrowed from its Database for
// one use and is reset when it goes out of scope. Not thread-safe: the store above it holds a lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "store/sqlite/log_syncer.h"

struct sqlite3;
struct sqlite3_stmt;

namespace atl::store {

class Database;

class Statement {
 public:
  Statement(Database& database, sqlite3_stmt* handle) : database_(database), handle_(handle) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  // Parameters in order, from the first on. The text must stay valid until the last step.
  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t value);
  Statement& bind(std::optional<std::int64_t> value);
  Statement& bind_blob(std::string_view bytes);

  // True: a row is there to be read. False: done.
  Result<bool> step();
  Result<> run();  // steps a statement that gives no rows

  // Columns in order, from the first on.
  std::string text();
  std::int64_t integer();
  std::optional<std::int64_t> optional_integer();

 private:
  Database& database_;
  sqlite3_stmt* handle_;
  int next_parameter_ = 1;
  int next_column_ = 0;
  int bind_status_ = 0;
};

class Database {
 public:
  static Result<std::unique_ptr<Database>> open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // `sql` is a literal: its address is the key of the statement cache.
  Result<std::unique_ptr<Statement>> prepare(const char* sql);
  Result<> execute(const char* sql);  // any number of statements without rows
  std::int64_t changed_rows() const;
  // From here on commits do not copy the log into the database: somebody else does, who is told
  // how long it is after each. Beyond `max_pages` a commit copies after all.
  using LogWatcher = std::function<void(std::int64_t pages)>;
  void leave_log_to(LogWatcher watcher, std::int64_t max_pages);
  // Copies what it can of the log without keeping anybody waiting; syncs both files.
  Result<> copy_log();
  // What was committed before is durable when it returns. Any thread.
  Result<> sync_log() { return syncer_.sync(); }
  Error last_error(std::string_view what) const;

 private:
  friend class Transaction;
  friend class Group;
  bool in_transaction() const;
  Result<> commit();
  Database(sqlite3* handle, const std::string& path) : handle_(handle), syncer_(path) {}

  sqlite3* handle_;
  LogSyncer syncer_;
  std::map<const char*, sqlite3_stmt*> statements_;
  class Group* group_ = nullptr;
  LogWatcher log_watcher_;
  std::int64_t max_log_pages_ = 0;
};

// While it lives, the transactions of its database are parts of one: each can fail and be undone
// alone, and all that did not are committed by end(). When that fails, none of them happened, and
// also those that had seemed to succeed have failed.
class Group {
 public:
  explicit Group(Database& database);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Whether a part since the last call made a durable change; one that failed has made none. To
  // sync the log after end() is up to the caller.
  bool take_durable() { return std::exchange(durable_, false); }
  Result<> end();

 private:
  friend class Transaction;
  Result<> begin_part();

  Database& database_;
  bool begun_ = false;
  bool durable_ = false;
};

// BEGIN IMMEDIATE ... COMMIT; rolls back when it is left without commit(). In a Group it is a
// savepoint of the group's own.
class Transaction {
 public:
  // The commit of a durable transaction has reached the disk when it returns; when only that
  // failed, it has happened all the same. In a Group: see Group::take_durable.
  static Result<std::unique_ptr<Transaction>> begin(Database& database, bool durable);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Result<> commit();

 private:
  Transaction(Database& database, bool durable, bool part)
      : database_(database), durable_(durable), part_(part) {}

  Database& database_;
  bool durable_;
  bool part_;  // of a Group
  bool open_ = true;
};

}  // namespace atl::store
