#include "layers/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "base/strings.h"
#include "layers/limits.h"

namespace atl::layers {

Result<Fd> open_directory(int parent_fd, const std::string& name) {
  Fd fd{::openat(parent_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!fd) {
    return fail_errno(concat("opening directory ", name));
  }
  return fd;
}

Result<Fd> open_private_directory(int parent_fd, const std::string& name) {
  if (::mkdirat(parent_fd, name.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail_errno(concat("creating directory ", name));
  }
  TRY(Fd fd, open_directory(parent_fd, name));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return fail_errno(concat("examining ", name));
  }
  if (info.st_uid != ::geteuid()) {
    return fail(Code::kFailedPrecondition, concat(name, " belongs to another user"));
  }
  // Layers hold setuid programs: nobody but root may reach them on the host.
  if ((info.st_mode & 07777) != 0700 && ::fchmod(fd.get(), 0700) != 0) {
    return fail_errno(concat("closing ", name, " to others"));
  }
  return fd;
}

Result<std::vector<std::string>> list_names(int directory_fd) {
  // A fresh open file description: the offset of a shared one is not ours.
  TRY(Fd fd, open_directory(directory_fd, "."));
  const std::unique_ptr<DIR, int (*)(DIR*)> directory{::fdopendir(fd.get()), &::closedir};
  if (directory == nullptr) {
    return fail_errno("listing a directory");
  }
  (void)fd.release();
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) {
        return fail_errno("listing a directory");
      }
      break;
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      names.emplace_back(name);
    }
    if (names.size() > kMaxListedNames) {
      return fail(Code::kResourceExhausted, "a directory has too many entries");
    }
  }
  std::ranges::sort(names);
  return names;
}

bool has_directory(int parent_fd, const std::string& name) {
  struct stat info{};
  return ::fstatat(parent_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(info.st_mode);
}

Result<> make_directory(int parent_fd, const char* name, unsigned mode) {
  if (::mkdirat(parent_fd, name, mode) != 0 || ::fchmodat(parent_fd, name, mode, 0) != 0) {
    return fail_errno(concat("creating directory ", name));
  }
  return {};
}

Result<> rename_new(int directory_fd, const std::string& from, const std::string& to) {
  if (::renameat2(directory_fd, from.c_str(), directory_fd, to.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) {
      return fail(Code::kAlreadyExists, concat(to, " already exists"));
    }
    return fail_errno(concat("naming ", to));
  }
  return {};
}

Result<std::uint64_t> free_bytes_at(const std::string& path) {
  struct statvfs info{};
  if (::statvfs(path.c_str(), &info) != 0) {
    return fail_errno(concat("asking for free space at ", path));
  }
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace atl::layers
