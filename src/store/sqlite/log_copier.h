// Copies the write-ahead log into the database beside those who write.
//
// SQLite would do it in the commit that makes the log too long, which then pays with two syncs for
// all the others. Here a thread with a connection of its own does it. It takes no lock that a
// writer needs; the log begins anew when a writer comes after everything was copied.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "store/sqlite/database.h"

namespace atl::store {

// Longer than this (32 MB) it is worth copying. Not sooner: the writer who begins the log anew
// syncs its new header inside its commit, and the whole group waits for the disk. A claim writes
// some five pages, so that this meets one in more than a thousand. What it costs is disk, and a
// start after a kill, which reads the log once.
inline constexpr std::int64_t kCopyLogPages = 8000;
// And this long (128 MB) only when writers never pause: then one of them has to wait.
inline constexpr std::int64_t kMaxLogPages = 4 * kCopyLogPages;

class LogCopier {
 public:
  static Result<std::unique_ptr<LogCopier>> start(const std::string& path);
  ~LogCopier();
  LogCopier(const LogCopier&) = delete;
  LogCopier& operator=(const LogCopier&) = delete;

  // The log has this many pages. Any thread.
  void note_length(std::int64_t pages);

 private:
  explicit LogCopier(std::unique_ptr<Database> database);
  void run();

  std::unique_ptr<Database> database_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::int64_t last_pages_ = 0;
  std::int64_t copy_at_pages_ = kCopyLogPages;
  bool due_ = false;
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace atl::store
