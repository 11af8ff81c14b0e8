#include "runtime/namespaces/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

namespace atl::runtime::namespaces {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kBufferBytes = 256 * 1024;
constexpr std::uint32_t kMaxNameBytes = 4096;

// Before each entry. A directory is followed by its entries and an end; a file by its extents, the
// last one empty; a link by its target, which is `size` bytes.
struct EntryHead {
  enum Kind : std::uint32_t { kEnd, kDirectory, kFile, kLink, kFifo };
  std::uint32_t kind = kEnd;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;
  std::int64_t modified_seconds = 0;
  std::int64_t modified_nanoseconds = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t reserved = 0;
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
  explicit Mover(int file) : file_(file), buffer_(kBufferBytes, '\0') {}

  int save_directory(int directory, int depth);
  int load_directory(int directory, int depth);

 private:
  int save_entry(int directory, const char* name, int depth);
  int save_content(int file, std::uint64_t size);
  int load_entry(int directory, const EntryHead& head, const std::string& name, int depth);
  int load_content(int file, std::uint64_t size);
  int load_link(int directory, const EntryHead& head, const std::string& name);

  int file_;
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

int Mover::save_entry(int directory, const char* name, int depth) {
  struct stat status{};
  if (::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno;
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
  if (error != 0 || head.kind == EntryHead::kFifo) {
    return error;
  }
  if (head.kind == EntryHead::kLink) {
    return write_whole(file_, target, head.size);
  }
  const bool is_directory = head.kind == EntryHead::kDirectory;
  const int inner = ::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (inner < 0) {
    return errno;
  }
  error = is_directory ? save_directory(inner, depth + 1) : save_content(inner, head.size);
  ::close(inner);
  return error;
}

int Mover::save_directory(int directory, int depth) {
  if (depth > kMaxDepth) {
    return ELOOP;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> entries{::fdopendir(::dup(directory)), &::closedir};
  if (!entries) {
    return errno;
  }
  while (const dirent* entry = ::readdir(entries.get())) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      if (const int error = save_entry(directory, entry->d_name, depth); error != 0) {
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

int Mover::load_entry(int directory, const EntryHead& head, const std::string& name, int depth) {
  int error = 0;
  int inner = -1;
  switch (head.kind) {
    case EntryHead::kDirectory:
      error = ::mkdirat(directory, name.c_str(), 0700) != 0 ? errno : 0;
      inner = ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      error = error == 0 && inner < 0 ? errno : error;
      error = error != 0 ? error : load_directory(inner, depth + 1);
      break;
    case EntryHead::kFile:
      inner = ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      error = inner < 0 ? errno : load_content(inner, head.size);
      break;
    case EntryHead::kLink:
      error = load_link(directory, head, name);
      break;
    case EntryHead::kFifo:
      error = ::mkfifoat(directory, name.c_str(), 0600) != 0 ? errno : 0;
      break;
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

int Mover::load_directory(int directory, int depth) {
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
    if (const int error = load_entry(directory, head, name, depth); error != 0) {
      return error;
    }
  }
}

int with_directory(const char* path, const auto& act) {
  const int directory = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) {
    return errno;
  }
  const int error = act(directory);
  ::close(directory);
  return error;
}

}  // namespace

int save_tree(const char* directory, int file) {
  Mover mover{file};
  return with_directory(directory, [&](int fd) { return mover.save_directory(fd, 0); });
}

int load_tree(const char* directory, int file) {
  Mover mover{file};
  return with_directory(directory, [&](int fd) { return mover.load_directory(fd, 0); });
}

}  // namespace atl::runtime::namespaces
