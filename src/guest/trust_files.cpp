#include "guest/trust_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"
#include "base/strings.h"
#include "guest/files.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

struct Directory {
  Fd fd;
  std::string name;  // of the place in it
};

Result<Directory> open_directory(const std::string& path) {
  const SplitPath split = split_path(path);
  Fd fd{::open(split.parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd) {
    return fail_file("opening", split.parent);
  }
  return Directory{std::move(fd), split.name};
}

Result<std::string> read_bounded(int fd, const std::string& path) {
  std::string content;
  char buffer[64 * 1024];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0) {
      return fail_file("reading", path);
    }
    if (got == 0) {
      return content;
    }
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > kMaxTrustFileBytes) {
      return fail(Code::kResourceExhausted, concat(path, " is too large to be changed"));
    }
  }
}

}  // namespace

Result<Place> read_place(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return Place{};
    }
    return fail_file("looking at", path);
  }
  if (!S_ISREG(status.st_mode)) {
    return Place{PlaceKind::kOther, {}};
  }
  const Fd fd{::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    return fail_file("opening", path);
  }
  if (!S_ISREG(status.st_mode)) {
    return Place{PlaceKind::kOther, {}};
  }
  TRY(std::string content, read_bounded(fd.get(), path));
  return Place{PlaceKind::kFile, std::move(content)};
}

bool is_directory(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

Result<> replace_file(const std::string& path, std::string_view content, unsigned mode) {
  TRY(const Place place, read_place(path));
  if (place.kind == PlaceKind::kFile && place.content == content) {
    return {};
  }
  if (place.kind == PlaceKind::kOther) {
    return fail(Code::kFailedPrecondition, concat(path, " is no ordinary file"));
  }
  TRY(const Directory directory, open_directory(path));
  TRY(const TemporaryFile temporary, make_temporary(directory.fd.get(), O_WRONLY));
  struct stat before{};
  const bool existed =
      ::fstatat(directory.fd.get(), directory.name.c_str(), &before, AT_SYMLINK_NOFOLLOW) == 0;
  Result<> outcome = write_all(temporary.fd.get(), content);
  if (outcome && existed && ::fchown(temporary.fd.get(), before.st_uid, before.st_gid) != 0) {
    outcome = fail_file("keeping the owner of", path);
  }
  if (outcome && ::fchmod(temporary.fd.get(), existed ? before.st_mode & 07777 : mode) != 0) {
    outcome = fail_file("keeping the mode of", path);
  }
  if (outcome && ::renameat(directory.fd.get(), temporary.name.c_str(), directory.fd.get(),
                            directory.name.c_str()) != 0) {
    outcome = fail_file("replacing", path);
  }
  if (!outcome) {
    ::unlinkat(directory.fd.get(), temporary.name.c_str(), 0);
  }
  return outcome;
}

Result<> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) {
    return fail_file("removing", path);
  }
  return {};
}

Result<> replace_link(const std::string& path, const std::string& target) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISLNK(status.st_mode)) {
      return {};
    }
    TRY_DO(remove_file(path));
  }
  if (::symlink(target.c_str(), path.c_str()) != 0) {
    return fail_file("linking", path);
  }
  return {};
}

std::string without_block(std::string_view text, std::string_view begin, std::string_view end) {
  std::string kept;
  for (;;) {
    const auto first = text.find(begin);
    const auto last = first == text.npos ? text.npos : text.find(end, first);
    if (last == text.npos) {
      kept += text;
      return kept;
    }
    kept += text.substr(0, first);
    text.remove_prefix(last + end.size());
  }
}

std::string without_text(std::string text, std::string_view piece) {
  if (piece.empty()) {
    return text;
  }
  for (auto at = text.find(piece); at != text.npos; at = text.find(piece, at)) {
    text.erase(at, piece.size());
  }
  return text;
}

}  // namespace atl::guest
