#include "guest/tree_visit.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/fd.h"
#include "base/strings.h"
#include "guest/files.h"
#include "guest/wire.h"

namespace atl::guest {
namespace {

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

Result<Directory> open_directory(int parent, const std::string& name, const std::string& path,
                                 int extra_flags) {
  Fd fd{::openat(parent, name.c_str(),
                 O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | extra_flags)};
  Directory directory{fd ? ::fdopendir(fd.get()) : nullptr, ::closedir};
  if (!directory) {
    return fail_file("reading", path);
  }
  fd.release();
  return directory;
}

Result<Next> visit_level(DIR* directory, const std::string& prefix, dev_t device, std::size_t depth,
                         Visitor& visitor);

Result<Next> enter(const Visit& visit, dev_t device, std::size_t depth, Visitor& visitor) {
  auto directory = open_directory(visit.directory, visit.name, visit.path, O_NOFOLLOW);
  if (!directory) {
    if (directory.error().reason != "file_not_found") {
      TRY_DO(visitor.on_obstacle(visit.path, std::move(directory).error()));
    }
    return Next::kContinue;
  }
  const int fd = ::dirfd(directory->get());
  struct stat status{};
  if (::fstat(fd, &status) != 0 || (status.st_dev != device && is_kernel_filesystem(fd))) {
    return Next::kContinue;
  }
  return visit_level(directory->get(), visit.path + "/", status.st_dev, depth + 1, visitor);
}

Result<Next> visit_one(DIR* directory, const std::string& prefix, const std::string& name,
                       dev_t device, std::size_t depth, Visitor& visitor) {
  Visit visit{.directory = ::dirfd(directory), .name = name, .path = prefix + name};
  if (depth > kMaxTreeDepth) {
    TRY_DO(visitor.on_obstacle(
        prefix, Error{Code::kFailedPrecondition,
                      concat("the tree is deeper than ", kMaxTreeDepth, " levels: ", prefix),
                      "tree_too_deep"}));
    return Next::kSkip;  // and not once for each of its names
  }
  if (visit.path.size() > kMaxPathBytes) {
    TRY_DO(visitor.on_obstacle(prefix,
                               file_error("reading", visit.path.substr(0, 256), ENAMETOOLONG)));
    return Next::kContinue;
  }
  if (::fstatat(visit.directory, name.c_str(), &visit.status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) {
      TRY_DO(visitor.on_obstacle(visit.path, file_error("reading", visit.path, errno)));
    }
    return Next::kContinue;
  }
  TRY(const Next next, visitor.on_entry(visit));
  if (next != Next::kContinue || !S_ISDIR(visit.status.st_mode)) {
    return next == Next::kStop ? Next::kStop : Next::kContinue;
  }
  return enter(visit, device, depth, visitor);
}

Result<Next> visit_level(DIR* directory, const std::string& prefix, dev_t device, std::size_t depth,
                         Visitor& visitor) {
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory);
    if (entry == nullptr) {
      if (errno != 0) {
        TRY_DO(visitor.on_obstacle(prefix, file_error("reading", prefix, errno)));
      }
      return Next::kContinue;
    }
    const std::string name = entry->d_name;
    if (name == "." || name == "..") {
      continue;
    }
    TRY(const Next next, visit_one(directory, prefix, name, device, depth, visitor));
    if (next != Next::kContinue) {
      return next == Next::kStop ? Next::kStop : Next::kContinue;
    }
  }
}

}  // namespace

bool is_kernel_filesystem(int fd) {
  constexpr unsigned long kMagics[] = {
      PROC_SUPER_MAGIC,
      SYSFS_MAGIC,
      CGROUP_SUPER_MAGIC,
      CGROUP2_SUPER_MAGIC,
      DEBUGFS_MAGIC,
      TRACEFS_MAGIC,
      SECURITYFS_MAGIC,
      DEVPTS_SUPER_MAGIC,
      BPF_FS_MAGIC,
      PSTOREFS_MAGIC,
      EFIVARFS_MAGIC,
      NSFS_MAGIC,
      0x19800202UL /* mqueue */,
      0x62656570UL /* configfs */,
  };
  struct statfs status{};
  return ::fstatfs(fd, &status) == 0 &&
         std::find(std::begin(kMagics), std::end(kMagics),
                   static_cast<unsigned long>(status.f_type)) != std::end(kMagics);
}

Result<> visit_tree(const std::string& path, Visitor& visitor) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    return fail_file("reading", path);
  }
  if (!S_ISDIR(status.st_mode)) {
    // Through the symlinks, but with the name that was asked for.
    const std::unique_ptr<char, void (*)(void*)> real{::realpath(path.c_str(), nullptr), ::free};
    if (!real) {
      return fail_file("reading", path);
    }
    const SplitPath split = split_path(real.get());
    const Fd parent{::open(split.parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    Visit visit{.directory = parent.get(), .name = split.name, .path = split_path(path).name};
    if (!parent ||
        ::fstatat(parent.get(), split.name.c_str(), &visit.status, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_file("reading", path);
    }
    TRY_DO(visitor.on_entry(visit));
    return {};
  }
  TRY(const auto directory, open_directory(AT_FDCWD, path, path, 0));
  TRY_DO(visit_level(directory.get(), "", status.st_dev, 1, visitor));
  return {};
}

}  // namespace atl::guest
