// Opening a pool: which backend this directory gets.
//
// The choice is made once and then kept, because data lies where it was put: a pool.img is always
// mounted (and when that fails we fail, we never start empty beside it), a directory that has plain
// layers stays as it is. Only a new pool chooses: the directory itself if that is on a btrfs with
// quotas, else a loop file, where limits always work (turning quotas on in a file system of the
// host is not ours to do), else the directory with a warning that says why.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/fd.h"
#include "base/log.h"
#include "base/strings.h"
#include "layers/btrfs_ioctl.h"
#include "layers/btrfs_volumes.h"
#include "layers/directory.h"
#include "layers/directory_pool.h"
#include "layers/limits.h"
#include "layers/loop_pool.h"
#include "layers/plain_volumes.h"
#include "layers/room.h"

namespace atl::layers {
namespace {

// The kernel drops the lock with its holder, so a killed process never blocks the next.
Result<Fd> lock_pool(int pool_fd, const std::string& path) {
  Fd fd{::openat(pool_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!fd) {
    return fail_errno(concat("opening the lock of ", path));
  }
  for (unsigned waited_ms = 0; ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; waited_ms += kLockNapMs) {
    if (errno != EWOULDBLOCK) {
      return fail_errno(concat("locking ", path));
    }
    if (waited_ms >= kLockWaitMs) {
      return fail(Code::kFailedPrecondition, concat(path, " is in use by another process"));
    }
    ::usleep(kLockNapMs * 1000);  // flock has no deadline of its own
  }
  return fd;
}

Result<> use_directly(DirectoryPoolParts& parts, int pool_fd) {
  parts.root_path = parts.pool_path;
  TRY(parts.volumes, open_btrfs_volumes(pool_fd, {.may_enable_quota = false}));
  return {};
}

Result<> use_plain(DirectoryPoolParts& parts, int pool_fd) {
  parts.root_path = parts.pool_path;
  TRY(parts.volumes, open_plain_volumes(pool_fd));
  return {};
}

Result<std::unique_ptr<Volumes>> open_mounted_volumes(const std::string& mount_path) {
  TRY(const Fd root, open_directory(AT_FDCWD, mount_path));
  if (::fchmod(root.get(), 0700) != 0) {
    return fail_errno("closing the pool to others");
  }
  return open_btrfs_volumes(root.get(), {.may_enable_quota = true});
}

Result<> use_loop(DirectoryPoolParts& parts, int pool_fd) {
  TRY(LoopPool loop, LoopPool::open(pool_fd, parts.pool_path));
  auto volumes = open_mounted_volumes(loop.mount_path());
  if (!volumes) {
    (void)loop.close();  // the first error is the one to report
    return fail(std::move(volumes).error());
  }
  parts.root_path = loop.mount_path();
  parts.volumes = *std::move(volumes);
  parts.loop = std::move(loop);
  return {};
}

// A directory whose disks nothing limits.
Result<> use_unlimited(DirectoryPoolParts& parts, int pool_fd, bool allow_btrfs) {
  return allow_btrfs && btrfs::is_btrfs(pool_fd) ? use_directly(parts, pool_fd)
                                                 : use_plain(parts, pool_fd);
}

// The first open of a new pool directory.
Result<> choose(DirectoryPoolParts& parts, int pool_fd, const PoolOptions& options) {
  if (!options.allow_btrfs) {
    return use_plain(parts, pool_fd);
  }
  auto made = LoopPool::create(pool_fd, parts.pool_path, options.loop_bytes);
  if (!made && (made.error().code == Code::kInvalidArgument ||
                made.error().code == Code::kResourceExhausted)) {
    return made;
  }
  if (made) {
    made = use_loop(parts, pool_fd);
    if (made) {
      return made;
    }
    // Nothing is in it yet.
    ::unlinkat(pool_fd, "pool.img", 0);
  }
  LOG_WARN("no btrfs pool: disk limits are not enforced and snapshots will be slow",
           {"pool", parts.pool_path}, {"error", made.error()});
  return use_unlimited(parts, pool_fd, options.allow_btrfs);
}

}  // namespace

std::string_view backend_name(Backend backend) {
  switch (backend) {
    case Backend::kBtrfs:
      return "btrfs";
    case Backend::kReflink:
      return "reflink";
    case Backend::kCopy:
      return "copy";
  }
  return "unknown";
}

Result<std::unique_ptr<Pool>> open_pool(const PoolOptions& options) {
  if (!options.directory.starts_with('/')) {
    return fail(Code::kInvalidArgument, "the pool directory must be an absolute path");
  }
  std::error_code error;
  const std::filesystem::path path = std::filesystem::path{options.directory}.lexically_normal();
  std::filesystem::create_directories(path.parent_path(), error);
  DirectoryPoolParts parts{.pool_path = path.string()};
  TRY(const Fd pool, open_private_directory(AT_FDCWD, parts.pool_path));
  TRY(parts.lock, lock_pool(pool.get(), parts.pool_path));

  Result<> opened;
  if (LoopPool::exists(pool.get())) {
    opened = use_loop(parts, pool.get());
  } else if (options.allow_btrfs && btrfs_has_quota(pool.get())) {
    opened = use_directly(parts, pool.get());
  } else if (has_directory(pool.get(), "layers")) {
    LOG_WARN("this pool was made without disk limits and stays without", {"pool", parts.pool_path});
    opened = use_unlimited(parts, pool.get(), options.allow_btrfs);
  } else {
    opened = choose(parts, pool.get(), options);
  }
  TRY_DO(opened);
  return make_directory_pool(std::move(parts));
}

}  // namespace atl::layers
