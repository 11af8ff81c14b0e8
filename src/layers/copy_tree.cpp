#include "layers/copy_tree.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include "base/fd.h"
#include "base/strings.h"
#include "layers/directory.h"
#include "layers/limits.h"
#include "layers/names.h"
#include "layers/remove_tree.h"

namespace atl::layers {
namespace {

Result<> copy_attributes(int from, int to) {
  std::string names(kMaxAttributeBytes, '\0');
  const ssize_t size = ::flistxattr(from, names.data(), names.size());
  if (size < 0) {
    return errno == ENOTSUP ? Result<>{} : fail_errno("listing extended attributes");
  }
  std::string value(kMaxAttributeBytes, '\0');
  for (const char* name = names.data(); name < names.data() + size;
       name += std::string_view{name}.size() + 1) {
    const ssize_t length = ::fgetxattr(from, name, value.data(), value.size());
    if (length < 0 ||
        ::fsetxattr(to, name, value.data(), static_cast<std::size_t>(length), 0) != 0) {
      return fail_errno(concat("copying the attribute ", name));
    }
  }
  return {};
}

// Owner before mode, because a change of owner takes setuid away.
Result<> copy_ownership(int from, int to, const struct stat& info) {
  if (::fchown(to, info.st_uid, info.st_gid) != 0 || ::fchmod(to, info.st_mode & 07777) != 0) {
    return fail_errno("copying an owner and mode");
  }
  TRY_DO(copy_attributes(from, to));
  const timespec times[2] = {info.st_atim, info.st_mtim};
  if (::futimens(to, times) != 0) {
    return fail_errno("copying times");
  }
  return {};
}

Result<> copy_range(int from, int to, off_t begin, off_t end) {
  off_t in = begin;
  off_t out = begin;
  while (in < end) {
    const ssize_t copied =
        ::copy_file_range(from, &in, to, &out, static_cast<std::size_t>(end - in), 0);
    if (copied < 0 && errno == EINTR) {
      continue;
    }
    if (copied < 0) {
      return fail_errno("copying a file");
    }
    if (copied == 0) {
      break;  // it has become shorter
    }
  }
  return {};
}

// Shares the blocks, else copies what is not a hole.
Result<> copy_content(int from, int to, off_t size) {
  if (::ioctl(to, FICLONE, from) == 0) {
    return {};
  }
  if (::ftruncate(to, size) != 0) {
    return fail_errno("sizing a file");
  }
  off_t at = 0;
  while (at < size) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0) {
      return errno == ENXIO ? Result<>{} : fail_errno("looking for data in a file");
    }
    const off_t hole = ::lseek(from, data, SEEK_HOLE);
    if (hole < 0) {
      return fail_errno("looking for a hole in a file");
    }
    TRY_DO(copy_range(from, to, data, std::min(hole, size)));
    at = hole;
  }
  return {};
}

class Copier {
 public:
  explicit Copier(Fd links) : links_(std::move(links)) {}

  Result<> copy(const TreePlace& from, const TreePlace& to) {
    TRY(Frame top, open_frame(from.parent_fd, from.name, to.parent_fd, to.name));
    device_ = top.info.st_dev;
    std::vector<Frame> frames;
    frames.push_back(std::move(top));
    while (!frames.empty()) {
      Frame& frame = frames.back();
      if (frame.next == frame.names.size()) {
        // Last, because everything put into a directory changes its time.
        TRY_DO(copy_ownership(frame.from.get(), frame.to.get(), frame.info));
        frames.pop_back();
        continue;
      }
      const std::string name = frame.names[frame.next++];
      struct stat info{};
      if (::fstatat(frame.from.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return fail_errno(concat("examining ", name));
      }
      if (!S_ISDIR(info.st_mode)) {
        TRY_DO(copy_entry(frame, name, info));
        continue;
      }
      if (info.st_dev != device_) {
        return fail(Code::kFailedPrecondition, concat(name, " is a mount point"));
      }
      if (frames.size() >= kMaxWalkDepth) {
        return fail(Code::kOutOfRange, "the tree is too deep to copy; only btrfs can keep it");
      }
      TRY(Frame child, open_frame(frame.from.get(), name, frame.to.get(), name));
      frames.push_back(std::move(child));
    }
    return {};
  }

 private:
  struct Frame {
    Fd from;
    Fd to;
    struct stat info{};
    std::vector<std::string> names;
    std::size_t next = 0;
  };

  static Result<Frame> open_frame(int from_fd, const std::string& from, int to_fd,
                                  const std::string& to) {
    Frame frame;
    TRY(frame.from, open_directory(from_fd, from));
    if (::fstat(frame.from.get(), &frame.info) != 0) {
      return fail_errno(concat("examining ", from));
    }
    TRY(frame.names, list_names(frame.from.get()));
    if (::mkdirat(to_fd, to.c_str(), 0700) != 0) {
      return fail_errno(concat("creating directory ", to));
    }
    TRY(frame.to, open_directory(to_fd, to));
    return frame;
  }

  // A file with several names is copied under the first; the others are links to the copy, which
  // is also kept under its number so that it can be found wherever it lies.
  Result<> copy_entry(const Frame& frame, const std::string& name, const struct stat& info) {
    if (info.st_nlink < 2) {
      return copy_file(frame, name, info);
    }
    const std::string kept = std::to_string(info.st_ino);
    if (!seen_.contains(info.st_ino)) {
      TRY_DO(copy_file(frame, name, info));
      if (::linkat(frame.to.get(), name.c_str(), links_.get(), kept.c_str(), 0) != 0) {
        return fail_errno(concat("remembering ", name));
      }
      seen_.insert(info.st_ino);
      return {};
    }
    if (::linkat(links_.get(), kept.c_str(), frame.to.get(), name.c_str(), 0) != 0) {
      return fail_errno(concat("linking ", name));
    }
    return {};
  }

  static Result<> copy_file(const Frame& frame, const std::string& name, const struct stat& info) {
    if (S_ISREG(info.st_mode)) {
      return copy_regular(frame, name, info);
    }
    if (S_ISLNK(info.st_mode)) {
      return copy_symlink(frame, name, info);
    }
    if (::mknodat(frame.to.get(), name.c_str(), info.st_mode, info.st_rdev) != 0) {
      return fail_errno(concat("creating ", name));
    }
    return finish_by_name(frame, name, info);
  }

  static Result<> copy_regular(const Frame& frame, const std::string& name,
                               const struct stat& info) {
    const Fd from{
        ::openat(frame.from.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    const Fd to{
        ::openat(frame.to.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (!from || !to) {
      return fail_errno(concat("copying ", name));
    }
    TRY_DO(copy_content(from.get(), to.get(), info.st_size));
    return copy_ownership(from.get(), to.get(), info);
  }

  static Result<> copy_symlink(const Frame& frame, const std::string& name,
                               const struct stat& info) {
    std::string target(static_cast<std::size_t>(info.st_size) + 1, '\0');
    const ssize_t size = ::readlinkat(frame.from.get(), name.c_str(), target.data(), target.size());
    if (size < 0) {
      return fail_errno(concat("reading the link ", name));
    }
    target.resize(static_cast<std::size_t>(size));
    if (::symlinkat(target.c_str(), frame.to.get(), name.c_str()) != 0) {
      return fail_errno(concat("creating the link ", name));
    }
    return finish_by_name(frame, name, info);
  }

  static Result<> finish_by_name(const Frame& frame, const std::string& name,
                                 const struct stat& info) {
    const timespec times[2] = {info.st_atim, info.st_mtim};
    if (::fchownat(frame.to.get(), name.c_str(), info.st_uid, info.st_gid, AT_SYMLINK_NOFOLLOW) !=
            0 ||
        (!S_ISLNK(info.st_mode) &&
         ::fchmodat(frame.to.get(), name.c_str(), info.st_mode & 07777, 0) != 0) ||
        ::utimensat(frame.to.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_errno(concat("copying the attributes of ", name));
    }
    return {};
  }

  Fd links_;
  dev_t device_ = 0;
  std::set<ino_t> seen_;
};

}  // namespace

Result<> copy_tree(const TreePlace& from, const TreePlace& to) {
  const std::string links_name = unique_name(kNewPrefix, "links");
  if (::mkdirat(to.parent_fd, links_name.c_str(), 0700) != 0) {
    return fail_errno("creating a directory for hard links");
  }
  TRY(Fd links, open_directory(to.parent_fd, links_name));
  auto copied = Copier{std::move(links)}.copy(from, to);
  const auto removed = remove_tree(to.parent_fd, links_name);
  return copied ? removed : copied;
}

}  // namespace atl::layers
