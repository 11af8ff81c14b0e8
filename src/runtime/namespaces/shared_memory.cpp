#include "runtime/namespaces/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace atl::runtime::namespaces {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kBufferBytes = std::size_t{256} * 1024;
constexpr std::uint32_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxPathBytes = 4000;

// Before each entry. A directory is followed by its entries and an end; a file by its extents, the
// last one empty; a link by its target, which is `size` bytes. A file with several names is there
// once, with `named_again` set; its other names say the how manieth of these it is in `size`.
struct EntryHead {
  enum Kind : std::uint32_t { kEnd, kDirectory, kFile, kLink, kFifo, kOtherName };
  std::uint32_t kind = kEnd;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;
  std::int64_t modified_seconds = 0;
  std::int64_t modified_nanoseconds = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t named_again = 0;
};
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

int write_whole(int file, const void* bytes, std::size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t wrote = ::write(file, at, size);
    if (wrote < 0) {
      return errno;
    }
    at += wrote;
    size -= static_cast<std::size_t>(wrote);
  }
  return 0;
}

int read_whole(int file, void* bytes, std::size_t size) {
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = ::read(file, at, size);
    if (got <= 0) {
      return got < 0 ? errno : EBADMSG;
    }
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return 0;
}

// The two halves share a buffer and the archive's descriptor.
class Mover {
 public:
  // `root` is the directory that is moved; what has more content than `room_bytes` is not saved.
  Mover(int file, int root, std::uint64_t room_bytes)
      : file_(file), root_(root), room_bytes_(room_bytes), buffer_(kBufferBytes, '\0') {}

  int save();
  int load() { return load_directory(root_, "", 0); }

 private:
  int save_directory(int directory, const std::string& path, int depth);
  int save_entry(int directory, const std::string& path, const char* name, int depth);
  int save_content(int file, std::uint64_t size);
  int load_directory(int directory, const std::string& path, int depth);
  int load_entry(int directory, const EntryHead& head, const std::string& path, int depth);
  int load_content(int file, std::uint64_t size);
  int load_link(int directory, const EntryHead& head, const std::string& name);
  int load_other_name(int directory, const EntryHead& head, const std::string& name);

  int file_;
  int root_;
  std::uint64_t room_bytes_;
  dev_t device_ = 0;
  std::map<ino_t, std::uint64_t> saved_;   // files with several names, and their numbers
  std::vector<std::string> loaded_paths_;  // the same, from the root
  std::string buffer_;
};

int Mover::save_content(int file, std::uint64_t size) {
  for (off_t at = 0; static_cast<std::uint64_t>(at) < size;) {
    const off_t data = ::lseek(file, at, SEEK_DATA);
    if (data < 0) {
      break;  // nothing but a hole
    }
    const off_t hole = ::lseek(file, data, SEEK_HOLE);
    if (hole < 0) {
      return errno;
    }
    const Extent extent{static_cast<std::uint64_t>(data), static_cast<std::uint64_t>(hole - data)};
    if (extent.size > room_bytes_) {
      return EFBIG;
    }
    room_bytes_ -= extent.size;
    if (const int error = write_whole(file_, &extent, sizeof extent); error != 0) {
      return error;
    }
    for (off_t from = data; from < hole;) {
      const std::size_t want = std::min<std::size_t>(buffer_.size(), hole - from);
      const ssize_t got = ::pread(file, buffer_.data(), want, from);
      if (got <= 0) {
        return got < 0 ? errno : EIO;
      }
      if (const int error = write_whole(file_, buffer_.data(), got); error != 0) {
        return error;
      }
      from += got;
    }
    at = hole;
  }
  const Extent last;
  return write_whole(file_, &last, sizeof last);
}

int Mover::save_entry(int directory, const std::string& path, const char* name, int depth) {
  struct stat status{};
  if (::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno;
  }
  if (status.st_dev != device_) {
    return 0;  // something is mounted here
  }
  EntryHead head{.mode = status.st_mode & 07777,
                 .uid = status.st_uid,
                 .gid = status.st_gid,
                 .size = static_cast<std::uint64_t>(status.st_size),
                 .modified_seconds = status.st_mtim.tv_sec,
                 .modified_nanoseconds = status.st_mtim.tv_nsec,
                 .name_bytes = static_cast<std::uint32_t>(std::strlen(name))};
  char target[kMaxNameBytes];
  if (S_ISDIR(status.st_mode)) {
    head.kind = EntryHead::kDirectory;
  } else if (S_ISREG(status.st_mode)) {
    head.kind = EntryHead::kFile;
    if (status.st_nlink > 1 && path.size() <= kMaxPathBytes) {
      const auto [known, is_first] = saved_.emplace(status.st_ino, saved_.size());
      head.named_again = is_first ? 1 : 0;
      head.kind = is_first ? EntryHead::kFile : EntryHead::kOtherName;
      head.size = is_first ? head.size : known->second;
    }
  } else if (S_ISLNK(status.st_mode)) {
    head.kind = EntryHead::kLink;
    const ssize_t size = ::readlinkat(directory, name, target, sizeof target);
    if (size < 0) {
      return errno;
    }
    head.size = static_cast<std::uint64_t>(size);
  } else if (S_ISFIFO(status.st_mode)) {
    head.kind = EntryHead::kFifo;
  } else {
    return 0;
  }
  int error = write_whole(file_, &head, sizeof head);
  error = error != 0 ? error : write_whole(file_, name, head.name_bytes);
  if (error != 0 || head.kind == EntryHead::kFifo || head.kind == EntryHead::kOtherName) {
    return error;
  }
  if (head.kind == EntryHead::kLink) {
    return write_whole(file_, target, head.size);
  }
  const bool is_directory = head.kind == EntryHead::kDirectory;
  const int inner = ::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (inner < 0) {
    return errno;
  }
  error = is_directory ? save_directory(inner, path, depth + 1) : save_content(inner, head.size);
  ::close(inner);
  return error;
}

int Mover::save() {
  struct stat status{};
  if (::fstat(root_, &status) != 0) {
    return errno;
  }
  device_ = status.st_dev;
  return save_directory(root_, "", 0);
}

int Mover::save_directory(int directory, const std::string& path, int depth) {
  if (depth > kMaxDepth) {
    return ELOOP;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> entries{::fdopendir(::dup(directory)), &::closedir};
  if (!entries) {
    return errno;
  }
  while (const dirent* entry = ::readdir(entries.get())) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      const std::string inner = path.empty() ? entry->d_name : path + "/" + entry->d_name;
      if (const int error = save_entry(directory, inner, entry->d_name, depth); error != 0) {
        return error;
      }
    }
  }
  const EntryHead end;
  return write_whole(file_, &end, sizeof end);
}

int Mover::load_content(int file, std::uint64_t size) {
  if (::ftruncate(file, static_cast<off_t>(size)) != 0) {
    return errno;
  }
  for (;;) {
    Extent extent;
    if (const int error = read_whole(file_, &extent, sizeof extent); error != 0) {
      return error;
    }
    if (extent.size == 0) {
      return 0;
    }
    while (extent.size > 0) {
      const std::size_t part = std::min<std::uint64_t>(buffer_.size(), extent.size);
      if (const int error = read_whole(file_, buffer_.data(), part); error != 0) {
        return error;
      }
      if (::pwrite(file, buffer_.data(), part, static_cast<off_t>(extent.offset)) !=
          static_cast<ssize_t>(part)) {
        return ENOSPC;
      }
      extent.offset += part;
      extent.size -= part;
    }
  }
}

int Mover::load_link(int directory, const EntryHead& head, const std::string& name) {
  if (head.size >= kMaxNameBytes) {
    return EBADMSG;
  }
  std::string target(head.size, '\0');
  if (const int error = read_whole(file_, target.data(), target.size()); error != 0) {
    return error;
  }
  return ::symlinkat(target.c_str(), directory, name.c_str()) != 0 ? errno : 0;
}

// By a path that consists of what was made here.
int Mover::load_other_name(int directory, const EntryHead& head, const std::string& name) {
  if (head.size >= loaded_paths_.size()) {
    return EBADMSG;
  }
  return ::linkat(root_, loaded_paths_[head.size].c_str(), directory, name.c_str(), 0) != 0 ? errno
                                                                                            : 0;
}

int Mover::load_entry(int directory, const EntryHead& head, const std::string& path, int depth) {
  const std::string name = path.substr(path.rfind('/') + 1);  // none: all of it
  int error = 0;
  int inner = -1;
  switch (head.kind) {
    case EntryHead::kDirectory:
      error = ::mkdirat(directory, name.c_str(), 0700) != 0 ? errno : 0;
      inner = ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      error = error == 0 && inner < 0 ? errno : error;
      error = error != 0 ? error : load_directory(inner, path, depth + 1);
      break;
    case EntryHead::kFile:
      inner = ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      error = inner < 0 ? errno : load_content(inner, head.size);
      if (head.named_again != 0) {
        loaded_paths_.push_back(path);
      }
      break;
    case EntryHead::kLink:
      error = load_link(directory, head, name);
      break;
    case EntryHead::kFifo:
      error = ::mkfifoat(directory, name.c_str(), 0600) != 0 ? errno : 0;
      break;
    case EntryHead::kOtherName:
      return load_other_name(directory, head, name);
    default:
      return EBADMSG;
  }
  if (inner >= 0) {
    ::close(inner);
  }
  if (error != 0) {
    return error;
  }
  // The owner first: a change of it takes set-user-id bits away.
  if (::fchownat(directory, name.c_str(), head.uid, head.gid, AT_SYMLINK_NOFOLLOW) != 0 ||
      (head.kind != EntryHead::kLink && ::fchmodat(directory, name.c_str(), head.mode, 0) != 0)) {
    return errno;
  }
  const timespec times[2] = {{0, UTIME_NOW}, {head.modified_seconds, head.modified_nanoseconds}};
  return ::utimensat(directory, name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0 ? errno : 0;
}

int Mover::load_directory(int directory, const std::string& path, int depth) {
  if (depth > kMaxDepth) {
    return ELOOP;
  }
  for (;;) {
    EntryHead head;
    if (const int error = read_whole(file_, &head, sizeof head); error != 0) {
      return error;
    }
    if (head.kind == EntryHead::kEnd) {
      return 0;
    }
    if (head.name_bytes == 0 || head.name_bytes >= kMaxNameBytes) {
      return EBADMSG;
    }
    std::string name(head.name_bytes, '\0');
    if (const int error = read_whole(file_, name.data(), name.size()); error != 0) {
      return error;
    }
    if (name.contains('/') || name == "." || name == "..") {
      return EBADMSG;
    }
    const std::string inner = path.empty() ? name : path + "/" + name;
    if (const int error = load_entry(directory, head, inner, depth); error != 0) {
      return error;
    }
  }
}

int with_directory(const char* path, const auto& act) {
  const int directory = ::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0) {
    return errno;
  }
  const int error = act(directory);
  ::close(directory);
  return error;
}

// By its entries: the kernel counts those of a whole file system, of which this may be a part.
// Reads at a position of its own, so that of `directory` stays at the beginning. 0 or an errno.
int look_for_entries(int directory, bool& found) {
  const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries{own < 0 ? nullptr : ::fdopendir(own),
                                                    &::closedir};
  if (!entries) {
    return errno;
  }
  found = false;
  while (const dirent* entry = found ? nullptr : ::readdir(entries.get())) {
    found = std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0;
  }
  return 0;
}

}  // namespace

int save_tree(const char* directory, int file, std::uint64_t room_bytes) {
  return with_directory(directory, [&](int fd) { return Mover{file, fd, room_bytes}.save(); });
}

int save_memory_tree(const char* directory, int file) {
  return with_directory(directory, [&](int fd) {
    struct statfs status{};
    if (::fstatfs(fd, &status) != 0) {
      return errno;
    }
    if (status.f_type != TMPFS_MAGIC) {
      return 0;  // a volume
    }
    bool has_entries = false;
    if (const int error = look_for_entries(fd, has_entries); error != 0 || !has_entries) {
      return error;
    }
    const std::uint64_t used = status.f_blocks - status.f_bfree;
    return Mover{file, fd, used * static_cast<std::uint64_t>(status.f_bsize)}.save();
  });
}

int load_tree(const char* directory, int file) {
  return with_directory(directory, [&](int fd) { return Mover{file, fd, 0}.load(); });
}

}  // namespace atl::runtime::namespaces
