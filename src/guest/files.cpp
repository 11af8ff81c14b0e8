// What the file operations share: errors with reasons, paths, descriptions, temporary files.
#include "guest/files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/strings.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

struct Reason {
  int error_number;
  std::string_view reason;
  std::string_view text;
};

constexpr Reason kReasons[] = {
    {ENOENT, "file_not_found", "does not exist"},
    {EACCES, "permission_denied", "permission denied"},
    {EPERM, "permission_denied", "operation not permitted"},
    {EROFS, "read_only", "is on a read-only filesystem"},
    {EEXIST, "path_exists", "already exists"},
    {ENOTDIR, "path_not_directory", "is not a directory, or part of the path is not"},
    {EISDIR, "path_not_file", "is a directory"},
    {ENOSPC, "no_space", "no space left"},
    {EDQUOT, "no_space", "disk quota is used up"},
    {ENOTEMPTY, "directory_not_empty", "directory is not empty"},
    {ELOOP, "too_many_symlinks", "too many symbolic links"},
    {ENAMETOOLONG, "path_too_long", "path or name is too long"},
    {EXDEV, "path_other_filesystem", "is on another filesystem"},
    {EBUSY, "path_busy", "is in use, for example as a mount point"},
    {ETXTBSY, "path_busy", "is a program that is running"},
};

}  // namespace

Error file_error(std::string_view what, std::string_view path, int error_number) {
  for (const Reason& row : kReasons) {
    if (row.error_number == error_number) {
      return Error{code_from_errno(error_number), concat(what, " ", path, ": ", row.text),
                   std::string{row.reason}};
    }
  }
  return errno_error(concat(what, " ", path), error_number);
}

std::unexpected<Error> fail_file(std::string_view what, std::string_view path) {
  return fail(file_error(what, path, errno));
}

std::string clean_path(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') {
    path.remove_suffix(1);
  }
  return std::string{path};
}

SplitPath split_path(std::string_view path) {
  const std::string clean = clean_path(path);
  if (clean == "/") {
    return {"/", "/"};
  }
  const auto slash = clean.rfind('/');
  return {slash == 0 ? "/" : clean.substr(0, slash), clean.substr(slash + 1)};
}

FileInfo make_file_info(const std::string& name, const std::string& path,
                        const struct stat& status) {
  FileInfo info;
  info.name = name;
  info.path = path;
  info.type = S_ISREG(status.st_mode)   ? FileType::kFile
              : S_ISDIR(status.st_mode) ? FileType::kDirectory
              : S_ISLNK(status.st_mode) ? FileType::kSymlink
                                        : FileType::kOther;
  info.size = static_cast<std::uint64_t>(status.st_size);
  info.mode = status.st_mode & 07777;
  info.uid = status.st_uid;
  info.gid = status.st_gid;
  info.modified_unix_ns =
      static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec;
  info.inode = status.st_ino;
  info.changed_unix_ns =
      static_cast<std::int64_t>(status.st_ctim.tv_sec) * 1000000000 + status.st_ctim.tv_nsec;
  return info;
}

Result<FileInfo> describe(int directory, const std::string& name, const std::string& path) {
  struct stat status{};
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return fail_file("reading", path);
  }
  const auto slash = name.rfind('/');
  const bool absolute = slash != std::string::npos && name.size() > 1;
  FileInfo info = make_file_info(absolute ? name.substr(slash + 1) : name, path, status);
  if (info.type == FileType::kSymlink) {
    std::string target(kMaxPathBytes, '\0');
    const ssize_t size = ::readlinkat(directory, name.c_str(), target.data(), target.size());
    target.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    info.link_target = std::move(target);
  }
  return info;
}

FileDetails find_details(const FileInfo& info, AccountNames& names) {
  FileDetails details;
  details.owner = names.user(info.uid);
  details.group = names.group(info.gid);
  details.resolved_type = info.type;
  if (info.type == FileType::kSymlink) {
    struct stat status{};
    details.resolved_type = FileType::kOther;
    std::string resolved(PATH_MAX, '\0');
    if (::stat(info.path.c_str(), &status) == 0 &&
        ::realpath(info.path.c_str(), resolved.data()) != nullptr) {
      details.resolved_type = make_file_info({}, {}, status).type;
      details.resolved_path = resolved.c_str();
    }
    return details;
  }
  // Without opening it: that could wait, or count as a use.
  const ssize_t needed = ::llistxattr(info.path.c_str(), nullptr, 0);
  if (needed <= 0) {
    return details;
  }
  std::string list(static_cast<std::size_t>(needed), '\0');
  const ssize_t listed = ::llistxattr(info.path.c_str(), list.data(), list.size());
  std::string_view rest{list.data(), listed > 0 ? static_cast<std::size_t>(listed) : 0};
  std::size_t bytes = 0;
  for (; !rest.empty(); rest.remove_prefix(std::min(rest.find('\0') + 1, rest.size()))) {
    const std::string name{rest.substr(0, rest.find('\0'))};
    std::string value(kMaxAttributeBytes, '\0');
    const bool wanted = name.starts_with("user.") && details.attributes.size() < kMaxAttributes;
    const ssize_t got =
        wanted ? ::lgetxattr(info.path.c_str(), name.c_str(), value.data(), value.size()) : -1;
    if (got >= 0 && (bytes += name.size() + static_cast<std::size_t>(got)) <= kMaxAttributeBytes) {
      value.resize(static_cast<std::size_t>(got));
      details.attributes.push_back({name, std::move(value)});
    }
  }
  return details;
}

Result<> make_directories(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) {
    return S_ISDIR(status.st_mode) ? Result<>{}
                                   : Result<>{fail(file_error("creating", path, ENOTDIR))};
  }
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    if (::mkdir(prefix.c_str(), 0755) != 0 && errno != EEXIST) {
      return fail_file("creating directory", prefix);
    }
    if (end == std::string::npos) {
      return {};
    }
  }
}

Result<TemporaryFile> make_temporary(int directory, int flags) {
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    char random[8];
    if (::getrandom(random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) {
      return fail_errno("getting random bytes");
    }
    std::string name = concat(".atoll-", hex({random, sizeof random}));
    Fd fd{
        ::openat(directory, name.c_str(), flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (fd) {
      return TemporaryFile{std::move(fd), std::move(name)};
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return fail_errno("creating a temporary file");
}

Result<> copy_content(int from, int to) {
  char buffer[32 * 1024];
  for (;;) {
    const ssize_t got = ::read(from, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return fail_file("reading", "the content");
    }
    if (got == 0) {
      return {};
    }
    if (!write_all(to, {buffer, static_cast<std::size_t>(got)})) {
      return fail_file("writing", "the content");
    }
  }
}

}  // namespace atl::guest
