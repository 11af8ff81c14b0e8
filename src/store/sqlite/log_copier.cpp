#include "store/sqlite/log_copier.h"

#include <pthread.h>

#include "base/log.h"

namespace atl::store {

Result<std::unique_ptr<LogCopier>> LogCopier::start(const std::string& path) {
  TRY(auto database, Database::open(path));
  return std::unique_ptr<LogCopier>{new LogCopier{std::move(database)}};
}

LogCopier::LogCopier(std::unique_ptr<Database> database)
    : database_(std::move(database)), thread_([this] { run(); }) {
  ::pthread_setname_np(thread_.native_handle(), "store log");
}

LogCopier::~LogCopier() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_one();
}

void LogCopier::note_length(std::int64_t pages) {
  {
    const std::lock_guard lock{mutex_};
    if (pages < last_pages_) {
      copy_at_pages_ = kCopyLogPages;  // it has begun anew
    }
    last_pages_ = pages;
    if (due_ || pages < copy_at_pages_) {
      return;
    }
    // What is written meanwhile is not copied; the rest of the log is worth it when it is as long.
    copy_at_pages_ = pages + kCopyLogPages;
    due_ = true;
  }
  wake_.notify_one();
}

void LogCopier::run() {
  for (;;) {
    {
      std::unique_lock lock{mutex_};
      wake_.wait(lock, [this] { return stopping_ || due_; });
      if (stopping_) {
        return;
      }
      due_ = false;
    }
    if (auto copied = database_->copy_log(); !copied) {
      LOG_WARN("the log of the database was not copied", {"error", copied.error()});
    }
  }
}

}  // namespace atl::store
