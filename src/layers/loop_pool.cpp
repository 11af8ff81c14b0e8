#include "layers/loop_pool.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/strings.h"
#include "layers/btrfs_ioctl.h"
#include "layers/directory.h"
#include "layers/limits.h"
#include "layers/mkfs.h"

namespace atl::layers {
namespace {

constexpr const char* kImage = "pool.img";
constexpr const char* kNewImage = "pool.img.new";
constexpr const char* kMount = "mnt";

Result<std::uint64_t> choose_bytes(int pool_fd, std::uint64_t wanted_bytes) {
  struct statvfs info{};
  if (::fstatvfs(pool_fd, &info) != 0) {
    return fail_errno("asking for free space");
  }
  return choose_loop_bytes(std::uint64_t{info.f_blocks} * info.f_frsize,
                           std::uint64_t{info.f_bavail} * info.f_frsize, wanted_bytes);
}

// A btrfs below would copy on each write into the file, and so shred it; that can only be switched
// off while it is empty.
Result<> write_in_place(int image_fd) {
  int flags = 0;
  if (::ioctl(image_fd, FS_IOC_GETFLAGS, &flags) != 0) {
    return fail_errno("reading the attributes of pool.img");
  }
  flags |= FS_NOCOW_FL;
  if (::ioctl(image_fd, FS_IOC_SETFLAGS, &flags) != 0) {
    return fail_errno("setting the attributes of pool.img");
  }
  return {};
}

Result<> make_image(int pool_fd, std::uint64_t bytes) {
  const Fd image{
      ::openat(pool_fd, kNewImage, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!image) {
    return fail_errno("creating pool.img");
  }
  if (btrfs::is_btrfs(pool_fd)) {
    TRY_DO(write_in_place(image.get()));
  }
  if (::ftruncate(image.get(), static_cast<off_t>(bytes)) != 0) {
    return fail_errno("sizing pool.img");
  }
  return {};
}

Result<> sync_image(int pool_fd) {
  const Fd image{::openat(pool_fd, kNewImage, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
  if (!image || ::fsync(image.get()) != 0) {
    return fail_errno("syncing pool.img");
  }
  return {};
}

bool is_mount_point(int parent_fd, int directory_fd) {
  struct stat parent{};
  struct stat directory{};
  return ::fstat(parent_fd, &parent) == 0 && ::fstat(directory_fd, &directory) == 0 &&
         parent.st_dev != directory.st_dev;
}

Result<Fd> open_image(int pool_fd) {
  Fd fd{::openat(pool_fd, kImage, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd) {
    return fail_errno("opening pool.img");
  }
  return fd;
}

}  // namespace

Result<std::uint64_t> choose_loop_bytes(std::uint64_t total_bytes, std::uint64_t free_bytes,
                                        std::uint64_t wanted_bytes) {
  if (wanted_bytes != 0 && wanted_bytes < kMinLoopBytes) {
    return fail(Code::kInvalidArgument, concat("a pool needs at least ", kMinLoopBytes >> 20,
                                               "Mi; ", wanted_bytes, " bytes were asked for"));
  }
  const std::uint64_t reserve_bytes =
      std::max(kMinHostReserveBytes, total_bytes / 100 * kHostReservePercent);
  const std::uint64_t most_bytes = free_bytes > reserve_bytes ? free_bytes - reserve_bytes : 0;
  const std::uint64_t least_bytes = wanted_bytes != 0 ? wanted_bytes : kDefaultMinLoopBytes;
  if (most_bytes < least_bytes) {
    return fail(Code::kResourceExhausted,
                concat("too little disk space: a pool of ", least_bytes >> 20, "Mi needs ",
                       (least_bytes + reserve_bytes) >> 20, "Mi free (", reserve_bytes >> 20,
                       "Mi stay with the host), and ", free_bytes >> 20, "Mi are"),
                "disk_full");
  }
  if (wanted_bytes != 0) {
    return wanted_bytes;
  }
  const std::uint64_t share_bytes = free_bytes / 100 * kDefaultLoopPercent;
  return std::clamp(share_bytes, least_bytes, most_bytes) >> 20 << 20;
}

bool LoopPool::exists(int pool_fd) {
  return ::faccessat(pool_fd, kImage, F_OK, 0) == 0;
}

Result<> LoopPool::create(int pool_fd, const std::string& pool_path, std::uint64_t bytes) {
  TRY(const std::uint64_t size, choose_bytes(pool_fd, bytes));
  if (::unlinkat(pool_fd, kNewImage, 0) != 0 && errno != ENOENT) {
    return fail_errno("removing a half-made pool.img");
  }
  auto formatted = make_image(pool_fd, size);
  if (formatted) {
    formatted = format_btrfs(concat(pool_path, "/", kNewImage));
  }
  if (formatted) {
    formatted = sync_image(pool_fd);
  }
  if (formatted && ::renameat(pool_fd, kNewImage, pool_fd, kImage) != 0) {
    formatted = fail_errno("naming pool.img");
  }
  if (!formatted) {
    ::unlinkat(pool_fd, kNewImage, 0);
    return formatted;
  }
  if (::fsync(pool_fd) != 0) {
    return fail_errno("syncing the pool directory");
  }
  return {};
}

Result<LoopPool> LoopPool::open(int pool_fd, const std::string& pool_path) {
  TRY(const Fd image, open_image(pool_fd));
  std::string mount_path = concat(pool_path, "/", kMount);
  auto found = LoopDevice::find(image.get());
  TRY(const Fd mount_point, open_private_directory(pool_fd, kMount));
  if (is_mount_point(pool_fd, mount_point.get())) {
    if (!found || !btrfs::is_btrfs(mount_point.get())) {
      return fail(Code::kFailedPrecondition,
                  concat("something else is mounted at ", mount_path, "; unmount it"));
    }
    return LoopPool{std::move(mount_path), *std::move(found)};
  }
  if (!found) {
    TRY(LoopDevice attached, LoopDevice::attach(image.get()));
    found = std::move(attached);
  }
  if (::mount(found->path().c_str(), mount_path.c_str(), "btrfs", MS_NOATIME | MS_NOSUID | MS_NODEV,
              "discard=async") != 0) {
    auto failure = fail_errno(concat("mounting ", found->path(), " at ", mount_path));
    (void)found->detach();  // the mount's error is the one to report
    return failure;
  }
  return LoopPool{std::move(mount_path), *std::move(found)};
}

Result<> LoopPool::close() {
  if (mounted_ && ::umount2(mount_path_.c_str(), UMOUNT_NOFOLLOW) != 0) {
    return fail_errno(concat("unmounting ", mount_path_));
  }
  mounted_ = false;
  return device_.detach();
}

}  // namespace atl::layers
