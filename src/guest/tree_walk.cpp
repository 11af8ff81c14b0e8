// Walking a tree to remove or copy it.
//
// Both walks hold one descriptor per level and address everything as (descriptor, name) with
// O_NOFOLLOW, so a directory that is swapped for a symlink meanwhile is an error and never a way
// out. Neither enters another mount. A tree deeper than kMaxRemoveDepth is removed by moving its
// deep part up next to the top, so neither the stack nor the descriptors grow with hostile depth.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/strings.h"
#include "guest/files.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

struct MountId {
  std::uint64_t mount = 0;
  std::uint64_t device = 0;
  bool operator==(const MountId&) const = default;
};

MountId mount_of(int fd) {
  struct statx status{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &status) != 0) {
    struct stat plain{};
    ::fstat(fd, &plain);
    return {0, plain.st_dev};
  }
  const std::uint64_t device =
      static_cast<std::uint64_t>(status.stx_dev_major) << 32 | status.stx_dev_minor;
  return {(status.stx_mask & STATX_MNT_ID) != 0 ? status.stx_mnt_id : 0, device};
}

Result<Directory> open_to_walk(int parent, const std::string& name, const std::string& path) {
  Fd fd{
      ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  if (!fd) {
    return fail_file("entering", path);
  }
  if (mount_of(fd.get()) != mount_of(parent)) {
    return fail(file_error("entering", path, EXDEV));
  }
  Directory directory{::fdopendir(fd.get()), ::closedir};
  if (!directory) {
    return fail_file("entering", path);
  }
  fd.release();
  return directory;
}

// The next name that is not . or ..; empty at the end.
std::string next_name(DIR* directory) {
  for (;;) {
    const dirent* entry = ::readdir(directory);
    const std::string name = entry != nullptr ? entry->d_name : "";
    if (name != "." && name != "..") {
      return name;
    }
  }
}

struct Removal {
  int top = -1;  // the first directory of the walk
  unsigned moved_up = 0;
};

Result<> remove_level(Removal& removal, int parent, const std::string& name,
                      const std::string& path, std::size_t depth);

Result<> remove_entry(Removal& removal, DIR* directory, const std::string& name,
                      const std::string& path, std::size_t depth) {
  const int parent = ::dirfd(directory);
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) {
    return {};
  }
  if (errno != EISDIR && errno != EPERM) {  // EPERM is what POSIX says for a directory
    return fail_file("removing", path);
  }
  const int error_number = errno;
  struct stat status{};
  if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISDIR(status.st_mode)) {
    return fail(file_error("removing", path, error_number));
  }
  if (depth < kMaxRemoveDepth) {
    return remove_level(removal, parent, name, path, depth + 1);
  }
  const std::string up = concat(".atoll-removing-", removal.moved_up++);
  if (::renameat(parent, name.c_str(), removal.top, up.c_str()) != 0) {
    return fail_file("removing", path);
  }
  return {};
}

Result<> remove_level(Removal& removal, int parent, const std::string& name,
                      const std::string& path, std::size_t depth) {
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) {
    return {};  // it was empty
  }
  TRY(auto directory, open_to_walk(parent, name, path));
  if (removal.top < 0) {
    removal.top = ::dirfd(directory.get());
  }
  // Removing while reading may skip entries, and deep parts come back up: read again until a pass
  // finds nothing.
  for (bool found = true; found;) {
    found = false;
    ::rewinddir(directory.get());
    for (auto entry = next_name(directory.get()); !entry.empty();
         entry = next_name(directory.get())) {
      found = true;
      TRY_DO(remove_entry(removal, directory.get(), entry, concat(path, "/", entry), depth));
    }
  }
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return fail_file("removing", path);
  }
  return {};
}

Result<> copy_attributes(int fd, const struct stat& status, const std::string& path) {
  if (::fchown(fd, status.st_uid, status.st_gid) != 0 && errno != EPERM) {
    return fail_file("copying", path);
  }
  const timespec times[2] = {status.st_atim, status.st_mtim};
  if (::fchmod(fd, status.st_mode & 07777) != 0 || ::futimens(fd, times) != 0) {
    return fail_file("copying", path);
  }
  return {};
}

Result<> copy_file(int from, const std::string& from_name, int to, const std::string& to_name,
                   const std::string& path) {
  const Fd in{
      ::openat(from, from_name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  struct stat status{};
  if (!in || ::fstat(in.get(), &status) != 0) {
    return fail_file("copying", path);
  }
  const Fd out{
      ::openat(to, to_name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!out || !S_ISREG(status.st_mode)) {
    return fail_file("copying", path);
  }
  TRY_DO(copy_content(in.get(), out.get()));
  return copy_attributes(out.get(), status, path);
}

Result<> copy_symlink(int from, const std::string& from_name, int to, const std::string& to_name,
                      const struct stat& status, const std::string& path) {
  std::string target(kMaxPathBytes, '\0');
  const ssize_t size = ::readlinkat(from, from_name.c_str(), target.data(), target.size() - 1);
  if (size < 0 || ::symlinkat(target.c_str(), to, to_name.c_str()) != 0) {
    return fail_file("copying", path);
  }
  if (::fchownat(to, to_name.c_str(), status.st_uid, status.st_gid, AT_SYMLINK_NOFOLLOW) != 0 &&
      errno != EPERM) {
    return fail_file("copying", path);
  }
  return {};
}

Result<> copy_level(int from, const std::string& from_name, int to, const std::string& to_name,
                    const std::string& path, std::size_t depth) {
  struct stat status{};
  if (::fstatat(from, from_name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return fail_file("copying", path);
  }
  if (S_ISREG(status.st_mode)) {
    return copy_file(from, from_name, to, to_name, path);
  }
  if (S_ISLNK(status.st_mode)) {
    return copy_symlink(from, from_name, to, to_name, status, path);
  }
  if (!S_ISDIR(status.st_mode) || depth > kMaxRemoveDepth) {
    return fail(Code::kFailedPrecondition,
                concat("cannot move ", path,
                       " to another filesystem: only files, symlinks and directories can"),
                "path_other_filesystem");
  }
  TRY(auto source, open_to_walk(from, from_name, path));
  if (::mkdirat(to, to_name.c_str(), 0700) != 0) {
    return fail_file("copying", path);
  }
  const Fd copy{::openat(to, to_name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!copy) {
    return fail_file("copying", path);
  }
  for (auto entry = next_name(source.get()); !entry.empty(); entry = next_name(source.get())) {
    TRY_DO(copy_level(::dirfd(source.get()), entry, copy.get(), entry, concat(path, "/", entry),
                      depth + 1));
  }
  return copy_attributes(copy.get(), status, path);
}

}  // namespace

Result<> remove_tree(int directory, const std::string& name, const std::string& path) {
  if (::unlinkat(directory, name.c_str(), 0) == 0) {
    return {};
  }
  struct stat status{};
  const int error_number = errno;
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return fail_file("removing", path);
  }
  if (!S_ISDIR(status.st_mode)) {
    return fail(file_error("removing", path, error_number));
  }
  Removal removal;
  return remove_level(removal, directory, name, path, 0);
}

Result<> copy_tree(int from_directory, const std::string& from_name, int to_directory,
                   const std::string& to_name, const std::string& path) {
  return copy_level(from_directory, from_name, to_directory, to_name, path, 0);
}

}  // namespace atl::guest
