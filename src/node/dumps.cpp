#include "node/dumps.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/fault_point.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strings.h"

namespace atl::node {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = ".new";
constexpr std::string_view kUsed = ".used";
constexpr int kUnlockRounds = 6000;
constexpr std::chrono::milliseconds kUnlockPause{10};

Result<> remove_directory(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? fail(Code::kInternal, concat("removing ", path, ": ", error.message()))
               : Result<>{};
}

Result<> sync_directory(const std::string& path) {
  const Fd directory{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!directory || ::syncfs(directory.get()) != 0) {
    return fail_errno(concat("syncing ", path));
  }
  return {};
}

// A name that is gone must stay gone when the power fails: what ran meanwhile has a newer disk.
Result<> sync_names(const std::string& path) {
  const Fd directory{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!directory || ::fsync(directory.get()) != 0) {
    return fail_errno(concat("syncing ", path));
  }
  return {};
}

// Waits for the program that fills it, which holds a lock on it and tells nobody when it ends.
void wait_until_unlocked(const std::string& path) {
  const Fd directory{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  for (int round = 0; directory && round < kUnlockRounds; ++round) {
    if (::flock(directory.get(), LOCK_EX | LOCK_NB) == 0) {
      return;
    }
    std::this_thread::sleep_for(kUnlockPause);
  }
}

}  // namespace

bool Dumps::has(const std::string& name) const {
  return !directory_.empty() && ::access(path(name).c_str(), F_OK) == 0;
}

std::uint64_t Dumps::size(const std::string& name) const {
  std::uint64_t bytes = 0;
  std::error_code error;
  if (has(name)) {
    for (fs::recursive_directory_iterator at{path(name), error}, end; !error && at != end;
         at.increment(error)) {
      struct stat status{};
      if (::lstat(at->path().c_str(), &status) == 0) {
        bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
      }
    }
  }
  return bytes;
}

Result<std::string> Dumps::begin(const std::string& name) const {
  if (directory_.empty()) {
    return fail(Code::kUnimplemented, "this node keeps no memory on disk");
  }
  const std::string unfinished = concat(path(name), kUnfinished);
  TRY_DO(remove_directory(unfinished));
  if (::mkdir(unfinished.c_str(), 0700) != 0) {
    return fail_errno(concat("making ", unfinished));
  }
  return unfinished;
}

Result<> Dumps::finish(const std::string& name) const {
  const std::string unfinished = concat(path(name), kUnfinished);
  TRY_DO(sync_directory(unfinished));
  ATOLL_FAULT_POINT("node.dump.synced");
  TRY_DO(remove(name));
  if (::rename(unfinished.c_str(), path(name).c_str()) != 0) {
    return fail_errno(concat("naming ", path(name)));
  }
  return sync_directory(directory_);
}

void Dumps::abandon(const std::string& name) const {
  if (const auto removed = remove_directory(concat(path(name), kUnfinished)); !removed) {
    LOG_WARN("a dump that failed stays until the next start", {"dump", name},
             {"error", removed.error()});
  }
}

Result<> Dumps::use_up(const std::string& name) const {
  const std::string used = concat(path(name), kUsed);
  TRY_DO(remove_directory(used));
  if (::rename(path(name).c_str(), used.c_str()) != 0) {
    return fail_errno(concat("using up ", path(name)));
  }
  return sync_names(directory_);
}

Result<> Dumps::remove(const std::string& name) const {
  if (directory_.empty()) {
    return {};
  }
  // The name goes first and at once: half a dump must not look like one.
  if (has(name)) {
    TRY_DO(use_up(name));
  }
  return remove_directory(concat(path(name), kUsed));
}

Result<> Dumps::copy(const std::string& from, const std::string& to) const {
  if (!has(from)) {
    return fail(Code::kFailedPrecondition, "its memory was not kept", "no_memory");
  }
  TRY(const std::string unfinished, begin(to));
  std::error_code error;
  fs::copy(path(from), unfinished,
           fs::copy_options::recursive | fs::copy_options::create_hard_links, error);
  if (error) {
    abandon(to);
    return fail(Code::kInternal, concat("copying a dump: ", error.message()));
  }
  return finish(to);
}

Result<std::vector<std::string>> Dumps::list() const {
  std::vector<std::string> names;
  std::error_code error;
  if (!directory_.empty()) {
    for (fs::directory_iterator at{directory_, error}, end; !error && at != end;
         at.increment(error)) {
      names.push_back(at->path().filename());
    }
  }
  if (error) {
    return fail(Code::kInternal, concat("reading ", directory_, ": ", error.message()));
  }
  return names;
}

Result<> Dumps::collect() const {
  TRY(const std::vector<std::string> names, list());
  for (const std::string& name : names) {
    if (name.ends_with(kUnfinished)) {
      wait_until_unlocked(path(name));
    }
    if (name.ends_with(kUnfinished) || name.ends_with(kUsed)) {
      TRY_DO(remove_directory(path(name)));
    }
  }
  return {};
}

}  // namespace atl::node
