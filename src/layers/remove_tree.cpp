#include "layers/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/strings.h"
#include "layers/directory.h"
#include "layers/limits.h"
#include "layers/names.h"

namespace atl::layers {
namespace {

// One open directory of the walk.
struct Frame {
  std::string name;  // in the frame above
  std::unique_ptr<DIR, int (*)(DIR*)> directory{nullptr, &::closedir};

  int fd() const { return ::dirfd(directory.get()); }
};

Result<Frame> open_frame(int parent_fd, const std::string& name) {
  TRY(Fd fd, open_directory(parent_fd, name));
  Frame frame{.name = name};
  frame.directory.reset(::fdopendir(fd.get()));
  if (frame.directory == nullptr) {
    return fail_errno(concat("listing ", name));
  }
  (void)fd.release();
  return frame;
}

// The next name in the directory, empty at its end.
Result<std::string> next_name(const Frame& frame) {
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(frame.directory.get());
    if (entry == nullptr) {
      if (errno != 0) {
        return fail_errno(concat("listing ", frame.name));
      }
      return std::string{};
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      return std::string{name};
    }
  }
}

dev_t device_of(int fd) {
  struct stat info{};
  CHECK(::fstat(fd, &info) == 0);
  return info.st_dev;
}

enum class Unlinked : bool { kGone, kIsDirectory };

Result<Unlinked> unlink_file(int parent_fd, const std::string& name) {
  if (::unlinkat(parent_fd, name.c_str(), 0) == 0 || errno == ENOENT) {
    return Unlinked::kGone;
  }
  if (errno == EISDIR || errno == EPERM) {
    return Unlinked::kIsDirectory;
  }
  return fail_errno(concat("removing ", name));
}

class Remover {
 public:
  explicit Remover(int root_fd) : root_fd_(root_fd) {}

  Result<> remove(std::string name) {
    pending_.push_back(std::move(name));
    while (!pending_.empty()) {
      std::string next = std::move(pending_.back());
      pending_.pop_back();
      TRY_DO(remove_branch(std::move(next)));
    }
    return {};
  }

 private:
  Result<> remove_branch(std::string name) {
    TRY(const Unlinked first, unlink_file(root_fd_, name));
    if (first == Unlinked::kGone) {
      return {};
    }
    std::vector<Frame> frames;
    TRY(Frame top, open_frame(root_fd_, name));
    frames.push_back(std::move(top));
    while (!frames.empty()) {
      TRY(const std::string child, next_name(frames.back()));
      if (child.empty()) {
        TRY_DO(remove_directory(frames));
        continue;
      }
      TRY(const Unlinked unlinked, unlink_file(frames.back().fd(), child));
      if (unlinked == Unlinked::kIsDirectory) {
        TRY_DO(descend(frames, child));
      }
    }
    return {};
  }

  Result<> descend(std::vector<Frame>& frames, const std::string& child) {
    if (frames.size() < kMaxWalkDepth) {
      TRY(Frame frame, open_frame(frames.back().fd(), child));
      if (device_of(frame.fd()) != device_of(frames.back().fd())) {
        return fail(Code::kFailedPrecondition, concat(child, " is a mount point"));
      }
      frames.push_back(std::move(frame));
      return {};
    }
    std::string moved = unique_name(".", "deep");
    if (::renameat(frames.back().fd(), child.c_str(), root_fd_, moved.c_str()) != 0) {
      return fail_errno("moving a deep directory up");
    }
    pending_.push_back(std::move(moved));
    return {};
  }

  // The last frame's directory has been read to its end.
  Result<> remove_directory(std::vector<Frame>& frames) {
    const int parent_fd = frames.size() > 1 ? frames[frames.size() - 2].fd() : root_fd_;
    const std::string name = frames.back().name;
    if (::unlinkat(parent_fd, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      if (errno != ENOTEMPTY) {
        return fail_errno(concat("removing directory ", name));
      }
      // Some file systems skip entries when others vanish under the reader. Read again; each round
      // removes at least one, or an error above ends it.
      ::rewinddir(frames.back().directory.get());
      return {};
    }
    frames.pop_back();
    return {};
  }

  int root_fd_;
  std::vector<std::string> pending_;
};

}  // namespace

Result<> remove_tree(int parent_fd, const std::string& name) {
  return Remover{parent_fd}.remove(name);
}

Result<std::uint64_t> measure_tree(int parent_fd, const std::string& name) {
  std::uint64_t bytes = 0;
  std::vector<Frame> frames;
  TRY(Frame top, open_frame(parent_fd, name));
  frames.push_back(std::move(top));
  while (!frames.empty()) {
    TRY(const std::string child, next_name(frames.back()));
    if (child.empty()) {
      frames.pop_back();
      continue;
    }
    struct stat info{};
    if (::fstatat(frames.back().fd(), child.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) {
        continue;  // a running sandbox removes files while we look
      }
      return fail_errno(concat("examining ", child));
    }
    bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
    if (!S_ISDIR(info.st_mode)) {
      continue;
    }
    if (frames.size() >= kMaxWalkDepth) {
      return fail(Code::kOutOfRange, "the tree is too deep to measure");
    }
    auto frame = open_frame(frames.back().fd(), child);
    if (frame) {
      frames.push_back(*std::move(frame));
    } else if (frame.error().code != Code::kNotFound) {
      return fail(std::move(frame).error());
    }
  }
  return bytes;
}

}  // namespace atl::layers
