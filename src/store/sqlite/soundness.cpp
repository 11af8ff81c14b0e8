#include "store/sqlite/soundness.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"

namespace atl::store {
namespace {

constexpr std::string_view kMarkText =
    "There is a database beside this file. Without it, or with another one, Atoll would take "
    "every\n"
    "sandbox for an orphan, so it refuses to start. To begin with nothing, remove this file too.\n";

std::string mark_of(const std::string& path) {
  return path + ".kept";
}

}  // namespace

Result<> refuse_lost(const std::string& path) {
  struct stat info{};
  if (::access(mark_of(path).c_str(), F_OK) != 0 ||
      (::stat(path.c_str(), &info) == 0 && info.st_size > 0)) {
    return {};
  }
  return fail(Code::kDataLoss,
              concat("the database ", path,
                     " is gone or empty; put back a copy of it. To begin with nothing, which "
                     "deletes every sandbox, snapshot and volume, remove ",
                     mark_of(path), " too"),
              "database_lost");
}

Result<> refuse_damaged(Database& database) {
  TRY(auto statement, database.prepare("PRAGMA quick_check(1)"));
  TRY(const bool row, statement->step());
  const std::string verdict = row ? statement->text() : "no verdict";
  if (verdict != "ok") {
    return fail(Code::kDataLoss, verdict);
  }
  return {};
}

Error with_advice(Error error, const std::string& path) {
  if (error.code != Code::kDataLoss || error.reason == "database_lost") {
    return error;
  }
  return {Code::kDataLoss,
          concat("the database ", path, " is damaged (", error.message,
                 "); nothing was changed. Put back a copy of it, or save what can be read with: "
                 "sqlite3 ",
                 path, " .recover | sqlite3 NEW_FILE"),
          "database_damaged"};
}

Result<> mark_kept(const std::string& path) {
  const std::string mark = mark_of(path);
  if (::access(mark.c_str(), F_OK) == 0) {
    return {};
  }
  return replace_file(mark, kMarkText, {.mode = 0600, .durable = true});
}

}  // namespace atl::store
