// Brings the write-ahead log to the disk beside those who write to it.
//
// What was committed before sync() was called is durable when it returns: it is in the log, or the
// log was copied and begun anew, and whoever copies syncs the database before that. The name of the
// log is synced too, once: it is a new file whenever the last user of the database was stopped.
// Closing a descriptor of the log drops no lock of SQLite's: those are on its other files.
//
// A sync that failed is not tried again. The kernel tells of pages that it could not write once,
// and may then forget them; the next sync would succeed although they are lost. So from then on
// every sync fails, until the process is restarted and begins with what the disk has. The process
// is not ended for it: what is running goes on, what need not survive a power cut is still
// recorded, and what was written may be undone. On a broken disk a restart would not help, and
// would come again and again.
#pragma once

#include <mutex>
#include <optional>
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
  Result<> sync_opened();

  const std::string path_;
  std::mutex mutex_;
  Fd log_;
  Fd unsynced_directory_;  // with its name
  std::optional<Error> failure_;
};

}  // namespace atl::store
