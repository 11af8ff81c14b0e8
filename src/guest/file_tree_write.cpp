// Receiving a tree: entries from anybody, written beneath one directory.
//
// Entry paths are checked when they are decoded (no way up, no root, bounded), and every parent is
// opened beneath the root without following a symlink, whether the stream made it or it was there
// before; so a stream can only write below the root. A file is staged beside its target and
// renamed, so nobody sees half of one. Directories get their mode and times at the end: a
// read-only directory must still take its content, and content changes a directory's times.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include "base/strings.h"
#include "guest/files.h"
#include "guest/identity.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr int kDirectoryFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr std::uint32_t kSetIdBits = 06000;

timespec to_timespec(std::int64_t unix_ns) {
  constexpr std::int64_t kSecond = 1000000000;
  const std::int64_t rest = (unix_ns % kSecond + kSecond) % kSecond;
  return {.tv_sec = (unix_ns - rest) / kSecond, .tv_nsec = rest};
}

constexpr std::size_t kHoleBytes = 4096;

bool is_zero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

// Blocks of zeros become holes: what was sparse stays it, and the rest loses nothing.
bool write_sparsely(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    std::size_t data = 0;
    while (data < bytes.size() && !is_zero(bytes.substr(data, kHoleBytes))) {
      data = std::min(bytes.size(), data + kHoleBytes);
    }
    if (data > 0 && !write_all(fd, bytes.substr(0, data))) {
      return false;
    }
    bytes.remove_prefix(data);
    std::size_t hole = 0;
    while (hole < bytes.size() && is_zero(bytes.substr(hole, kHoleBytes))) {
      hole = std::min(bytes.size(), hole + kHoleBytes);
    }
    if (hole > 0 && ::lseek(fd, static_cast<off_t>(hole), SEEK_CUR) < 0) {
      return false;
    }
    bytes.remove_prefix(hole);
  }
  return true;
}

// The sandbox's kernel decides about those that are more than data (capabilities, access lists).
Result<> set_attributes(int fd, const TreeEntry& entry) {
  for (const Attribute& attribute : entry.attributes) {
    if (::fsetxattr(fd, attribute.name.c_str(), attribute.value.data(), attribute.value.size(),
                    0) != 0 &&
        attribute.name.starts_with("user.")) {
      return fail_file(concat("setting attribute ", attribute.name, " of"), entry.path);
    }
  }
  return {};
}

std::string_view parent_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

class TreeReceiver {
 public:
  TreeReceiver(FileChannel& channel, Fd root)
      : channel_(channel), root_(std::move(root)), privileged_(makes_files_of_root()) {}

  // Also of a tree that breaks off in the middle, what came is finished.
  Result<TreeDone> receive() {
    const auto received = receive_entries();
    const auto finished = finish_directories();
    TRY_DO(received);
    TRY_DO(finished);
    return done_;
  }

 private:
  Result<> receive_entries() {
    for (;;) {
      TRY(const auto frame, channel_.receive());
      if (frame.kind == Kind::kEnd) {
        return {};
      }
      if (frame.kind != Kind::kTreeEntry) {
        return fail(Code::kInvalidArgument, "a tree takes entries, their data and kEnd",
                    "malformed");
      }
      if (++entries_ > kMaxTreeEntries) {
        return fail(Code::kResourceExhausted,
                    concat("the tree has more than ", kMaxTreeEntries, " entries"),
                    "too_many_entries");
      }
      TRY(auto entry, decode_tree_entry(frame.payload));
      if (!privileged_) {
        entry.mode &= ~kSetIdBits;
      }
      TRY_DO(write_entry(entry));
    }
  }

  struct PendingDirectory {
    std::string path;
    std::uint32_t mode = 0;
    std::int64_t modified_unix_ns = 0;
  };

  Result<> write_entry(const TreeEntry& entry) {
    TRY(const auto parent, open_beneath(parent_of(entry.path), true));
    switch (entry.type) {
      case FileType::kDirectory:
        ++done_.directories;
        return write_directory(parent.get(), entry);
      case FileType::kSymlink:
        ++done_.symlinks;
        return write_symlink(parent.get(), entry);
      case FileType::kHardlink:
        ++done_.files;
        return write_hardlink(parent.get(), entry);
      case FileType::kFifo:
        ++done_.files;
        return write_fifo(parent.get(), entry);
      default:
        ++done_.files;
        return write_file(parent.get(), entry);
    }
  }

  // The directory `path` beneath the root; the root itself when empty.
  Result<Fd> open_beneath(std::string_view path, bool make) {
    if (path.empty()) {
      return root_.duplicate();
    }
    open_how how{};
    how.flags = kDirectoryFlags;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    const std::string text{path};
    Fd fd{static_cast<int>(::syscall(SYS_openat2, root_.get(), text.c_str(), &how, sizeof how))};
    if (fd) {
      return fd;
    }
    // Missing parts, a kernel without openat2, or a refusal: the careful walk makes what is
    // missing, works everywhere, and knows what to say.
    return walk_beneath(path, make);
  }

  Result<Fd> walk_beneath(std::string_view path, bool make) {
    TRY(auto directory, root_.duplicate());
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const std::string name{path.substr(begin, end - begin)};
      const std::string_view so_far = path.substr(0, end);
      if (make && ::mkdirat(directory.get(), name.c_str(), 0755) == 0) {
        TRY_DO(remember(so_far));
        made_.emplace(so_far);
      } else if (make && errno != EEXIST) {
        return fail_file("creating directory", so_far);
      }
      Fd next{::openat(directory.get(), name.c_str(), kDirectoryFlags)};
      if (!next) {
        return fail(explain(directory.get(), name, so_far, errno));
      }
      directory = std::move(next);
      begin = end + 1;
    }
    return directory;
  }

  Result<> remember(std::string_view path) {
    remembered_bytes_ += path.size() + sizeof(PendingDirectory);
    if (remembered_bytes_ > kMaxTreeDirectoryBytes) {
      return fail(Code::kResourceExhausted, "the tree has too many directories",
                  "too_many_entries");
    }
    return {};
  }

  static Error explain(int directory, const std::string& name, std::string_view path,
                       int error_number) {
    struct stat status{};
    if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(status.st_mode)) {
      return Error{Code::kInvalidArgument,
                   concat(path, " is a symbolic link; a tree is not written through one"),
                   "path_escapes"};
    }
    return file_error("entering", path, error_number);
  }

  Result<> write_directory(int parent, const TreeEntry& entry) {
    const std::string name = name_of(entry.path);
    const bool made = ::mkdirat(parent, name.c_str(), 0700) == 0 || made_.erase(entry.path) > 0;
    if (!made && errno != EEXIST) {
      return fail_file("creating directory", entry.path);
    }
    const Fd directory{::openat(parent, name.c_str(), kDirectoryFlags)};
    if (!directory) {
      return fail(explain(parent, name, entry.path, errno));
    }
    if (!made) {
      return {};  // it was there before and stays as it is
    }
    if (privileged_ && ::fchownat(directory.get(), "", entry.uid, entry.gid, AT_EMPTY_PATH) != 0) {
      return fail_file("changing the owner of", entry.path);
    }
    if (!entry.attributes.empty()) {
      const Fd readable{
          ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
      if (!readable) {
        return fail_file("entering", entry.path);
      }
      TRY_DO(set_attributes(readable.get(), entry));
    }
    TRY_DO(remember(entry.path));
    pending_.push_back({entry.path, entry.mode, entry.modified_unix_ns});
    return {};
  }

  Result<> write_symlink(int parent, const TreeEntry& entry) {
    const std::string name = name_of(entry.path);
    if (::symlinkat(entry.link_target.c_str(), parent, name.c_str()) != 0) {
      if (errno != EEXIST) {
        return fail_file("creating symlink", entry.path);
      }
      if (::unlinkat(parent, name.c_str(), 0) != 0 ||
          ::symlinkat(entry.link_target.c_str(), parent, name.c_str()) != 0) {
        return fail_file("replacing", entry.path);
      }
    }
    if (privileged_ &&
        ::fchownat(parent, name.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_file("changing the owner of", entry.path);
    }
    const timespec times[2] = {{.tv_nsec = UTIME_OMIT}, to_timespec(entry.modified_unix_ns)};
    ::utimensat(parent, name.c_str(), times, AT_SYMLINK_NOFOLLOW);  // not every filesystem can
    return {};
  }

  Result<> write_fifo(int parent, const TreeEntry& entry) {
    const std::string name = name_of(entry.path);
    if (::mknodat(parent, name.c_str(), S_IFIFO | 0600, 0) != 0 &&
        (errno != EEXIST || ::unlinkat(parent, name.c_str(), 0) != 0 ||
         ::mknodat(parent, name.c_str(), S_IFIFO | 0600, 0) != 0)) {
      return fail_file("creating FIFO", entry.path);
    }
    const timespec times[2] = {{.tv_nsec = UTIME_OMIT}, to_timespec(entry.modified_unix_ns)};
    if ((privileged_ &&
         ::fchownat(parent, name.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW) != 0) ||
        ::fchmodat(parent, name.c_str(), entry.mode, 0) != 0 ||
        ::utimensat(parent, name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_file("creating FIFO", entry.path);
    }
    return {};
  }

  // The target is reached like any path of the tree: beneath the root, through no symlink.
  Result<> write_hardlink(int parent, const TreeEntry& entry) {
    const std::string name = name_of(entry.path);
    TRY(const auto target_parent, open_beneath(parent_of(entry.link_target), false));
    const std::string target = name_of(entry.link_target);
    // Staged like a file: replacing is atomic, and a link to itself loses nothing.
    TRY(const auto reserved, make_temporary(parent, O_WRONLY));
    const std::string staged = reserved.name + "l";
    ::unlinkat(parent, reserved.name.c_str(), 0);
    if (::linkat(target_parent.get(), target.c_str(), parent, staged.c_str(), 0) != 0) {
      return fail_file("linking", entry.path);
    }
    Result<> linked;
    if (::renameat(parent, staged.c_str(), parent, name.c_str()) != 0) {
      linked = fail_file("linking", entry.path);
    }
    ::unlinkat(parent, staged.c_str(), 0);  // rename(2) leaves it when both are the same file
    return linked;
  }

  Result<> write_file(int parent, const TreeEntry& entry) {
    auto stage = make_temporary(parent, O_WRONLY);
    if (!stage) {
      return fail_file("writing", entry.path);
    }
    auto written = fill_file(stage->fd.get(), entry);
    if (written &&
        ::renameat(parent, stage->name.c_str(), parent, name_of(entry.path).c_str()) != 0) {
      written = fail_file("writing", entry.path);
    }
    if (!written) {
      ::unlinkat(parent, stage->name.c_str(), 0);
    }
    return written;
  }

  Result<> fill_file(int fd, const TreeEntry& entry) {
    for (std::uint64_t left = entry.size; left > 0;) {
      TRY(const auto frame, channel_.receive());
      if (frame.kind != Kind::kData || frame.payload.size() > left) {
        return fail(Code::kInvalidArgument,
                    concat(entry.path, ": the data of a file must have the size of its entry"),
                    "malformed");
      }
      if (!write_sparsely(fd, frame.payload)) {
        return fail_file("writing", entry.path);
      }
      left -= frame.payload.size();
      done_.bytes += frame.payload.size();
    }
    if (entry.size > 0 && ::ftruncate(fd, static_cast<off_t>(entry.size)) != 0) {
      return fail_file("writing", entry.path);
    }
    // The owner first: a change of owner takes the set-id bits and capabilities away.
    if (privileged_ && ::fchown(fd, entry.uid, entry.gid) != 0) {
      return fail_file("changing the owner of", entry.path);
    }
    TRY_DO(set_attributes(fd, entry));
    const timespec times[2] = {{.tv_nsec = UTIME_OMIT}, to_timespec(entry.modified_unix_ns)};
    if (::fchmod(fd, entry.mode) != 0 || ::futimens(fd, times) != 0) {
      return fail_file("writing", entry.path);
    }
    return {};
  }

  // Children before parents: a parent that loses its x bit must not hide them.
  Result<> finish_directories() {
    std::sort(pending_.begin(), pending_.end(),
              [](const auto& a, const auto& b) { return a.path > b.path; });
    for (const PendingDirectory& pending : pending_) {
      TRY(const auto parent, open_beneath(parent_of(pending.path), false));
      const Fd directory{::openat(parent.get(), name_of(pending.path).c_str(),
                                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
      if (!directory) {
        return fail_file("finishing directory", pending.path);
      }
      const timespec times[2] = {{.tv_nsec = UTIME_OMIT}, to_timespec(pending.modified_unix_ns)};
      if (::futimens(directory.get(), times) != 0 || ::fchmod(directory.get(), pending.mode) != 0) {
        return fail_file("finishing directory", pending.path);
      }
    }
    return {};
  }

  FileChannel& channel_;
  const Fd root_;
  const bool privileged_;
  std::uint64_t entries_ = 0;
  std::vector<PendingDirectory> pending_;
  std::set<std::string, std::less<>> made_;  // parents that no entry has described so far
  std::size_t remembered_bytes_ = 0;
  TreeDone done_;
};

}  // namespace

Result<> write_tree(FileChannel& channel, const PathRequest& request) {
  const std::string path = clean_path(request.path);
  TRY_DO(make_directories(path));
  Fd root{::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (!root) {
    return fail_file("opening directory", path);
  }
  TreeReceiver receiver{channel, std::move(root)};
  TRY(const auto done, receiver.receive());
  return channel.send(Kind::kTreeDone, encode(done));
}

}  // namespace atl::guest
