#include "layers/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
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

}  // namespace atl::layers
