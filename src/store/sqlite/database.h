// The SQLite C API as owners and Results: one connection, statements prepared once and reused.
//
// SQLite's codes become Errors here and nowhere else. A Statement is borrowed from its Database for
// one use and is reset when it goes out of scope. Not thread-safe: the store above it holds a lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

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
  Error last_error(std::string_view what) const;

 private:
  friend class Transaction;
  explicit Database(sqlite3* handle) : handle_(handle) {}

  sqlite3* handle_;
  std::map<const char*, sqlite3_stmt*> statements_;
};

// BEGIN IMMEDIATE ... COMMIT; rolls back when it is left without commit().
class Transaction {
 public:
  // A durable transaction makes its commit reach the disk before it returns.
  static Result<std::unique_ptr<Transaction>> begin(Database& database, bool durable);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Result<> commit();

 private:
  Transaction(Database& database, bool durable) : database_(database), durable_(durable) {}

  Database& database_;
  bool durable_;
  bool open_ = true;
};

}  // namespace atl::store
