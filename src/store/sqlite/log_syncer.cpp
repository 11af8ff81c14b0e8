#include "store/sqlite/log_syncer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"

namespace atl::store {

// Nothing is lost when there is no descriptor left for it: the next one tries again.
Result<> LogSyncer::open() {
  Fd log{::open(concat(path_, "-wal").c_str(), O_RDONLY | O_CLOEXEC)};
  if (!log) {
    return fail_errno("opening the log of the database");
  }
  const auto slash = path_.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  Fd parent{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!parent) {
    return fail_errno("opening the directory of the database");
  }
  log_ = std::move(log);
  unsynced_directory_ = std::move(parent);
  return {};
}

Result<> LogSyncer::sync_opened() {
  TRY_DO(ATOLL_FAULT_CHECK("store.log.sync"));
  if (unsynced_directory_ && ::fsync(unsynced_directory_.get()) != 0) {
    return fail_errno("syncing the directory of the database");
  }
  unsynced_directory_.reset();
  struct stat info{};
  if (::fdatasync(log_.get()) != 0 || ::fstat(log_.get(), &info) != 0) {
    return fail_errno("syncing the log of the database");
  }
  // Removed under us by somebody: nothing that is in it will be found again.
  if (info.st_nlink == 0) {
    return fail(Code::kDataLoss, "the log of the database was removed");
  }
  return {};
}

Result<> LogSyncer::sync() {
  const std::lock_guard lock{mutex_};
  if (failure_) {
    return fail(*failure_);
  }
  if (!log_) {
    TRY_DO(open());
  }
  auto synced = sync_opened();
  if (synced) {
    return {};
  }
  LOG_ERROR("the log of the database is not on the disk; durable changes fail until a restart",
            {"error", synced.error()});
  failure_ = Error{Code::kDataLoss,
                   concat("the disk did not take the log of the database (", synced.error().message,
                          "); nothing can be made durable until the server is restarted"),
                   "sync_failed"};
  return fail(*failure_);
}

}  // namespace atl::store
