// Brings the write-ahead log to the disk beside those who write to it.
//
// What was committed before sync() was called is durable when it returns: it is in the log, or the
// log was copied and begun anew, and whoever copies syncs the database before that. The name of the
// log is synced too, once: it is a new file whenever the last user of the database was stopped.
// Closing a descriptor of the log drops no lock of SQLite's: those are on its other files.
#pragma once

#include <mutex>
#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace atl::store {

class LogSyncer {
 public:
  // Of the database at this path, which is open and stays so.
  explicit LogSyncer(std::string path) : path_(std::move(path)) {}
  Result<> sync();  // any thread

 private:
  Result<> open();

  const std::string path_;
  std::mutex mutex_;
  Fd log_;
};

}  // namespace atl::store
