#include "guest/merged_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/strings.h"
#include "guest/files.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr const char* kOpaque = "user.overlay.opaque";
constexpr const char* kWhiteout = "user.overlay.whiteout";
constexpr std::string_view kOverlay = "user.overlay.";
constexpr std::string_view kEscaped = "user.overlay.overlay.";
constexpr std::size_t kMaxListBytes = std::size_t{64} * 1024;  // the kernel's own bound

// 'y': hides everything below; 'x': has marked files as whiteouts; 0: neither.
char opaque_mark(int directory) {
  std::array<char, 2> value{};
  return ::fgetxattr(directory, kOpaque, value.data(), value.size()) == 1 ? value[0] : '\0';
}

bool is_whiteout(const Place& place, const std::string& name, const struct stat& status) {
  if (S_ISCHR(status.st_mode)) {
    return status.st_rdev == makedev(0, 0);
  }
  if (!place.has_marks || !S_ISREG(status.st_mode) || status.st_size != 0) {
    return false;
  }
  const Fd fd{::openat(place.directory.get(), name.c_str(),
                       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  return fd && ::fgetxattr(fd.get(), kWhiteout, nullptr, 0) >= 0;
}

bool is_shown(std::string_view name) {
  if (name.starts_with(kOverlay)) {
    return name.starts_with(kEscaped);
  }
  return name.starts_with("user.") || name == "security.capability" ||
         name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

}  // namespace

Result<std::shared_ptr<Place>> open_root(const std::string& directory, std::size_t tree) {
  Fd fd{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!fd) {
    return fail_file("reading", directory);
  }
  const bool has_marks = opaque_mark(fd.get()) == 'x';
  return std::make_shared<Place>(tree, std::move(fd), has_marks);
}

bool hides_below(const Place& place) {
  return opaque_mark(place.directory.get()) == 'y';
}

Result<std::shared_ptr<Place>> NameLookup::open(const Place& parent) {
  for (const auto& [place, opened] : opened_) {
    if (place == &parent) {
      return opened;
    }
  }
  Fd fd{::openat(parent.directory.get(), name_.c_str(),
                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  if (!fd) {
    return fail_file("reading", path_);
  }
  const bool has_marks = opaque_mark(fd.get()) == 'x';
  auto place = std::make_shared<Place>(parent.tree, std::move(fd), has_marks);
  opened_.emplace_back(&parent, place);
  return place;
}

Result<std::optional<Node>> NameLookup::find(const Stack& stack) {
  std::optional<Node> found;
  for (const auto& place : stack) {
    struct stat status{};
    if (::fstatat(place->directory.get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) {
        continue;
      }
      return fail_file("reading", path_);
    }
    const bool directory = S_ISDIR(status.st_mode);
    if (!directory && (found || is_whiteout(*place, name_, status))) {
      break;
    }
    if (!found) {
      found.emplace(status, place, Stack{});
    }
    if (!directory) {
      break;
    }
    TRY(auto opened, open(*place));
    found->below.push_back(opened);
    if (hides_below(*opened)) {
      break;
    }
  }
  return found;
}

std::size_t common_trees(const Stack& one, const Stack& other) {
  std::size_t count = 0;
  while (count < one.size() && count < other.size() &&
         one[one.size() - 1 - count]->tree == other[other.size() - 1 - count]->tree) {
    ++count;
  }
  return count;
}

Result<> append_names(const Stack& stack, std::size_t count, const std::string& path,
                      std::vector<std::string>& names, std::size_t& bytes) {
  for (std::size_t i = 0; i < count; ++i) {
    // An own open file: the position in a directory belongs to it, and a place may be read twice.
    Fd fd{::openat(stack[i]->directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    const std::unique_ptr<DIR, int (*)(DIR*)> directory{fd ? ::fdopendir(fd.get()) : nullptr,
                                                        ::closedir};
    if (!directory) {
      return fail_file("reading", path);
    }
    fd.release();
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(directory.get());
      if (entry == nullptr) {
        if (errno != 0) {
          return fail_file("reading", path);
        }
        break;
      }
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") {
        continue;
      }
      bytes += name.size() + sizeof(std::string);
      if (bytes > kMaxDiffNameBytes) {
        return fail(Code::kResourceExhausted,
                    concat("directories below ", path, " have too many names to compare"),
                    "too_many_entries");
      }
      names.emplace_back(name);
    }
  }
  return {};
}

Result<std::vector<Attribute>> read_attributes(int fd, const std::string& path) {
  std::vector<Attribute> attributes;
  const ssize_t needed = ::flistxattr(fd, nullptr, 0);
  if (needed < 0 && errno != ENOTSUP) {
    return fail_file("reading the attributes of", path);
  }
  if (needed <= 0) {
    return attributes;
  }
  std::string list(kMaxListBytes, '\0');
  const ssize_t size = ::flistxattr(fd, list.data(), list.size());
  if (size < 0) {
    return fail_file("reading the attributes of", path);
  }
  list.resize(static_cast<std::size_t>(size));
  std::size_t bytes = 0;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::string name = list.c_str() + begin;
    begin += name.size() + 1;
    if (!is_shown(name)) {
      continue;
    }
    std::string value(kMaxListBytes, '\0');
    const ssize_t got = ::fgetxattr(fd, name.c_str(), value.data(), value.size());
    if (got < 0) {
      return fail_file(concat("reading attribute ", name, " of"), path);
    }
    value.resize(static_cast<std::size_t>(got));
    std::string shown =
        name.starts_with(kEscaped) ? concat(kOverlay, name.substr(kEscaped.size())) : name;
    bytes += shown.size() + value.size();
    attributes.push_back({std::move(shown), std::move(value)});
    if (bytes > kMaxAttributeBytes || attributes.size() > kMaxAttributes) {
      return fail(Code::kResourceExhausted, concat(path, " has too many extended attributes"),
                  "too_many_attributes");
    }
  }
  std::ranges::sort(attributes);
  return attributes;
}

}  // namespace atl::guest
