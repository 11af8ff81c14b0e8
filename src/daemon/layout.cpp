#include "daemon/layout.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/random.h"
#include "base/strings.h"

namespace atl::daemon {
namespace {

constexpr int kLockAttempts = 250;
constexpr std::chrono::milliseconds kLockPause{20};

struct Ownership {
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t mode = 0700;
};

// Makes the directory or takes one that root or the wanted owner made; never through a link.
Result<> make_directory(const std::string& path, const Ownership& want) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail_errno(concat("making ", path));
  }
  const Fd fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    return fail_errno(concat("opening ", path));
  }
  if (info.st_uid == want.uid && info.st_gid == want.gid && (info.st_mode & 07777) == want.mode) {
    return {};
  }
  if (::fchown(fd.get(), want.uid, want.gid) != 0 || ::fchmod(fd.get(), want.mode) != 0) {
    return fail_errno(concat("changing the owner of ", path));
  }
  return {};
}

bool looks_like_ours(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path + "/lock", error);
}

Result<bool> is_empty(const std::string& path) {
  const std::unique_ptr<DIR, decltype(&::closedir)> directory{::opendir(path.c_str()), &::closedir};
  if (directory == nullptr) {
    return fail_errno(concat("opening ", path));
  }
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != "lost+found") {
      return false;
    }
  }
  return true;
}

// After a change of --user the old account's files become the new one's. Only plain files with one
// name: the old account could have placed other ones.
Result<> give_database(const std::string& path, const Account& account) {
  const std::unique_ptr<DIR, decltype(&::closedir)> directory{::opendir(path.c_str()), &::closedir};
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    const Fd file{::openat(::dirfd(directory.get()), entry->d_name,
                           O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    struct stat info{};
    if (file && ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1 &&
        info.st_uid != account.uid && ::fchown(file.get(), account.uid, account.gid) != 0) {
      return fail_errno(concat("changing the owner of ", path, "/", entry->d_name));
    }
  }
  return {};
}

// The text of a lock: "<pid>\n<address>\n".
std::string_view line_of(std::string_view lock_text, std::size_t index) {
  const auto lines = split(lock_text, '\n');
  return index < lines.size() ? trim(lines[index]) : std::string_view{};
}

bool is_alive(std::string_view lock_text) {
  const auto pid = parse_u64(line_of(lock_text, 0));
  return pid && *pid > 0 && *pid <= INT_MAX && ::kill(static_cast<pid_t>(*pid), 0) == 0;
}

}  // namespace

Result<Layout> open_layout(const std::string& data_dir) {
  std::error_code error;
  std::filesystem::create_directories(data_dir, error);
  if (error) {
    return fail(errno_error(concat("making ", data_dir), error.value()));
  }
  const std::unique_ptr<char, decltype(&::free)> real{::realpath(data_dir.c_str(), nullptr),
                                                      &::free};
  if (real == nullptr) {
    return fail_errno(concat("finding ", data_dir));
  }
  Layout layout;
  layout.data_dir = real.get();
  layout.instance = hex(sha256(layout.data_dir)).substr(0, 8);
  layout.run_dir = concat(kRunRoot, "/", layout.instance);
  TRY(const bool empty, is_empty(layout.data_dir));
  if (!empty && !looks_like_ours(layout.data_dir)) {
    return fail(Code::kFailedPrecondition,
                concat(layout.data_dir, " holds other things; give --data-dir an empty directory"));
  }
  return layout;
}

Result<Fd> lock_layout(const Layout& layout, std::string_view address) {
  const std::string path = layout.lock_file();
  Fd fd{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!fd) {
    return fail_errno(concat("opening ", path));
  }
  // When its supervisor is dead the lock is held for a moment only: by a node that was told to die
  // with it, or by another installation that looks whether we are alive. There is no event for it.
  for (int attempt = 0; ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
    if (errno != EWOULDBLOCK) {
      return fail_errno(concat("locking ", path));
    }
    const std::string holder = read_file(path).value_or("");
    if (is_alive(holder) || attempt == kLockAttempts) {
      return fail(Code::kFailedPrecondition,
                  concat("Atoll already runs on ", layout.data_dir, " (process ",
                         line_of(holder, 0), "); stop it or use another --data-dir"));
    }
    std::this_thread::sleep_for(kLockPause);
  }
  const std::string text = concat(::getpid(), "\n", address, "\n");
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), text.data(), text.size(), 0) < 0) {
    return fail_errno(concat("writing ", path));
  }
  return fd;
}

Result<std::string> running_address(const std::string& data_dir) {
  const std::string path = concat(data_dir, "/lock");
  const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd) {
    return fail_errno(concat("opening ", path));
  }
  TRY(const std::string text, read_file(path));
  if (::flock(fd.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK || !is_alive(text)) {
    return fail(Code::kNotFound, concat("no server runs on ", data_dir));
  }
  return std::string{line_of(text, 1)};
}

Result<> prepare_directories(const Layout& layout, const Account& account) {
  TRY_DO(make_directory(layout.data_dir, {.mode = 0711}));
  TRY_DO(make_directory(layout.pool_dir(), {.mode = 0700}));
  TRY_DO(make_directory(layout.cells_dir(), {.mode = 0700}));
  TRY_DO(make_directory(layout.db_dir(), {account.uid, account.gid, 0700}));
  TRY_DO(give_database(layout.db_dir(), account));
  TRY_DO(make_directory(kRunRoot, {.mode = 0711}));
  TRY_DO(make_directory(kUidClaims, {.mode = 0700}));
  TRY_DO(make_directory(layout.run_dir, {.mode = 0711}));
  TRY_DO(make_directory(layout.guest_dir(), {0, account.gid, 0710}));
  TRY_DO(make_directory(layout.stage_dir(), {.mode = 0711}));
  return make_directory(layout.db_mount(), {.mode = 0700});
}

Result<> mount_database_dir(const Layout& layout) {
  if (::mount(layout.db_dir().c_str(), layout.db_mount().c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return fail_errno(concat("showing the database at ", layout.db_mount()));
  }
  return {};
}

// What is not empty stays: sockets of sandboxes that still run.
void remove_run_dir(const Layout& layout) {
  ::umount2(layout.db_mount().c_str(), MNT_DETACH);
  ::unlink(layout.node_socket().c_str());
  for (const std::string& directory :
       {layout.db_mount(), layout.stage_dir(), layout.guest_dir(), layout.run_dir}) {
    ::rmdir(directory.c_str());
  }
}

}  // namespace atl::daemon
