#include "store/sqlite/log_syncer.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/strings.h"

namespace atl::store {

Result<> LogSyncer::open() {
  Fd log{::open(concat(path_, "-wal").c_str(), O_RDONLY | O_CLOEXEC)};
  if (!log) {
    return fail_errno("opening the log of the database");
  }
  const auto slash = path_.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const Fd parent{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!parent || ::fsync(parent.get()) != 0) {
    return fail_errno("syncing the directory of the database");
  }
  log_ = std::move(log);
  return {};
}

Result<> LogSyncer::sync() {
  const std::lock_guard lock{mutex_};
  if (!log_) {
    TRY_DO(open());
  }
  if (::fdatasync(log_.get()) != 0) {
    return fail_errno("syncing the log of the database");
  }
  return {};
}

}  // namespace atl::store
