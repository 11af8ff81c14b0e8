// The operations of SFTP on files: each a system call or two, and its answer.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/strings.h"
#include "guest/sftp_server.h"

namespace atl::guest::sftp {
namespace {

constexpr mode_t kModeBits = 07777;

std::string outcome(std::uint32_t id, bool done) {
  return status_packet(id, status_of(done ? 0 : errno));
}

int open_flags(std::uint32_t wanted) {
  constexpr std::uint32_t kRead = 1;
  constexpr std::uint32_t kWrite = 2;
  constexpr std::uint32_t kAppend = 4;
  constexpr std::uint32_t kCreate = 8;
  constexpr std::uint32_t kTruncate = 16;
  constexpr std::uint32_t kExclusive = 32;
  int flags = O_CLOEXEC | O_NOCTTY;
  if ((wanted & kRead) != 0 && (wanted & kWrite) != 0) {
    flags |= O_RDWR;
  } else {
    flags |= (wanted & kWrite) != 0 ? O_WRONLY : O_RDONLY;
  }
  flags |= (wanted & kAppend) != 0 ? O_APPEND : 0;
  flags |= (wanted & kCreate) != 0 ? O_CREAT : 0;
  flags |= (wanted & kTruncate) != 0 ? O_TRUNC : 0;
  flags |= (wanted & kExclusive) != 0 ? O_EXCL : 0;
  return flags;
}

// All of them, as far as they are given; the first that fails ends it. `fd` is the file itself, or
// AT_FDCWD for a path.
bool apply(const Attributes& wanted, int fd, const char* path, bool follow) {
  const bool by_path = path != nullptr;
  if (wanted.size && (by_path ? ::truncate(path, static_cast<off_t>(*wanted.size))
                              : ::ftruncate(fd, static_cast<off_t>(*wanted.size))) != 0) {
    return false;
  }
  const int flags = follow ? 0 : AT_SYMLINK_NOFOLLOW;
  if (wanted.mode) {
    const mode_t mode = *wanted.mode & kModeBits;
    if ((by_path ? ::fchmodat(AT_FDCWD, path, mode, flags) : ::fchmod(fd, mode)) != 0) {
      return false;
    }
  }
  if (wanted.owner) {
    const auto [uid, gid] = *wanted.owner;
    if ((by_path ? ::fchownat(AT_FDCWD, path, uid, gid, flags) : ::fchown(fd, uid, gid)) != 0) {
      return false;
    }
  }
  if (wanted.times) {
    const timespec times[2] = {{static_cast<time_t>(wanted.times->accessed), 0},
                               {static_cast<time_t>(wanted.times->modified), 0}};
    if ((by_path ? ::utimensat(AT_FDCWD, path, times, flags) : ::futimens(fd, times)) != 0) {
      return false;
    }
  }
  return true;
}

std::string one_name(std::uint32_t id, std::string_view name) {
  const struct stat nothing{};
  return PacketWriter{Type::kName, id}.u32(1).bytes(name).bytes(name).attributes(nothing).finish();
}

// Without "." and "..", for a path whose last parts need not exist.
std::string tidy(const std::string& path) {
  std::string full = path;
  if (!path.starts_with('/')) {
    char here[4096];
    full = concat(::getcwd(here, sizeof here) == nullptr ? "/" : here, "/", path);
  }
  std::vector<std::string_view> parts;
  for (const std::string_view part : split(full, '/')) {
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else if (!part.empty() && part != "." && part != "..") {
      parts.push_back(part);
    }
  }
  std::string result;
  for (const std::string_view part : parts) {
    result += concat("/", part);
  }
  return result.empty() ? "/" : result;
}

}  // namespace

std::string Server::keep(std::uint32_t id, Open open) {
  if (handles_.size() >= kMaxHandles) {
    return status_packet(id, Status::kFailure);
  }
  const std::string handle = std::to_string(next_handle_++);
  handles_.emplace(handle, std::move(open));
  return PacketWriter{Type::kHandle, id}.bytes(handle).finish();
}

Server::Open* Server::find(std::string_view handle) {
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : &found->second;
}

Server::OpenFile* Server::find_file(std::string_view handle) {
  Open* open = find(handle);
  return open == nullptr ? nullptr : std::get_if<OpenFile>(open);
}

std::string Server::open(std::uint32_t id, PacketReader& in) {
  const std::string path = in.path();
  const int flags = open_flags(in.u32());
  const mode_t mode = in.attributes().mode.value_or(0666) & kModeBits;
  if (!in.ok()) {
    return {};  // the caller says so
  }
  Fd fd{::open(path.c_str(), flags, mode)};
  if (!fd) {
    return outcome(id, false);
  }
  return keep(id, OpenFile{std::move(fd), (flags & O_APPEND) != 0});
}

std::string Server::close(std::uint32_t id, PacketReader& in) {
  const auto found = handles_.find(in.bytes());
  if (found == handles_.end()) {
    return status_packet(id, Status::kNoSuchFile);
  }
  // Only the close says whether everything could be stored, on some filesystems.
  bool stored = true;
  if (auto* file = std::get_if<OpenFile>(&found->second)) {
    stored = ::close(file->fd.release()) == 0;
  }
  const std::string reply = outcome(id, stored);
  handles_.erase(found);
  return reply;
}

std::string Server::read(std::uint32_t id, PacketReader& in) {
  const OpenFile* file = find_file(in.bytes());
  const std::uint64_t offset = in.u64();
  const std::uint32_t wanted = std::min(in.u32(), kMaxDataBytes);
  if (file == nullptr || !in.ok()) {
    return status_packet(id, Status::kNoSuchFile);
  }
  std::string data(wanted, '\0');
  const ssize_t got = ::pread(file->fd.get(), data.data(), data.size(), static_cast<off_t>(offset));
  if (got < 0) {
    return outcome(id, false);
  }
  if (got == 0) {
    return status_packet(id, Status::kEnd);
  }
  return PacketWriter{Type::kData, id}
      .bytes(std::string_view{data}.substr(0, static_cast<std::size_t>(got)))
      .finish();
}

std::string Server::write(std::uint32_t id, PacketReader& in) {
  const OpenFile* file = find_file(in.bytes());
  auto offset = static_cast<off_t>(in.u64());
  std::string_view data = in.bytes();
  if (file == nullptr || !in.ok()) {
    return status_packet(id, Status::kNoSuchFile);
  }
  while (!data.empty()) {
    const ssize_t put = file->append ? ::write(file->fd.get(), data.data(), data.size())
                                     : ::pwrite(file->fd.get(), data.data(), data.size(), offset);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      return outcome(id, false);
    }
    offset += put;
    data.remove_prefix(static_cast<std::size_t>(put));
  }
  return status_packet(id, Status::kOk);
}

std::string Server::stat(std::uint32_t id, PacketReader& in, bool follow) {
  const std::string path = in.path();
  struct stat info{};
  if (!in.ok() || (follow ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info)) != 0) {
    return outcome(id, false);
  }
  return PacketWriter{Type::kAttributes, id}.attributes(info).finish();
}

std::string Server::fstat(std::uint32_t id, PacketReader& in) {
  const OpenFile* file = find_file(in.bytes());
  struct stat info{};
  if (file == nullptr) {
    return status_packet(id, Status::kNoSuchFile);
  }
  if (::fstat(file->fd.get(), &info) != 0) {
    return outcome(id, false);
  }
  return PacketWriter{Type::kAttributes, id}.attributes(info).finish();
}

std::string Server::set_attributes(std::uint32_t id, PacketReader& in, bool follow) {
  const std::string path = in.path();
  const Attributes wanted = in.attributes();
  if (!in.ok()) {
    return {};  // the caller says so
  }
  return outcome(id, apply(wanted, AT_FDCWD, path.c_str(), follow));
}

std::string Server::fset_attributes(std::uint32_t id, PacketReader& in) {
  const OpenFile* file = find_file(in.bytes());
  const Attributes wanted = in.attributes();
  if (file == nullptr || !in.ok()) {
    return status_packet(id, Status::kNoSuchFile);
  }
  return outcome(id, apply(wanted, file->fd.get(), nullptr, true));
}

std::string Server::open_directory(std::uint32_t id, PacketReader& in) {
  const std::string path = in.path();
  Directory directory{in.ok() ? ::opendir(path.c_str()) : nullptr};
  if (!directory) {
    return outcome(id, false);
  }
  return keep(id, std::move(directory));
}

std::string Server::read_directory(std::uint32_t id, PacketReader& in) {
  Open* open = find(in.bytes());
  auto* directory = open == nullptr ? nullptr : std::get_if<Directory>(open);
  if (directory == nullptr) {
    return status_packet(id, Status::kNoSuchFile);
  }
  struct Entry {
    std::string name;
    struct stat info;
  };
  std::vector<Entry> entries;
  while (entries.size() < kNamesPerAnswer) {
    const dirent* next = ::readdir(directory->get());
    if (next == nullptr) {
      break;
    }
    Entry entry{next->d_name, {}};
    if (::fstatat(::dirfd(directory->get()), next->d_name, &entry.info, AT_SYMLINK_NOFOLLOW) == 0) {
      entries.push_back(std::move(entry));
    }
  }
  if (entries.empty()) {
    return status_packet(id, Status::kEnd);
  }
  PacketWriter out{Type::kName, id};
  out.u32(static_cast<std::uint32_t>(entries.size()));
  for (const Entry& entry : entries) {
    out.bytes(entry.name).bytes(long_name(entry.info, entry.name)).attributes(entry.info);
  }
  return out.finish();
}

std::string Server::real_path(std::uint32_t id, std::string path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved != nullptr) {
    const std::string text{resolved};
    std::free(resolved);
    return one_name(id, text);
  }
  // A client asks for the name of what it is about to make, too.
  return errno == ENOENT ? one_name(id, tidy(path)) : outcome(id, false);
}

std::string Server::expand_path(std::uint32_t id, PacketReader& in) {
  std::string path = in.path();
  if (path == "~" || path.starts_with("~/")) {
    const char* home = std::getenv("HOME");
    path = concat(home == nullptr ? "/" : home, path.substr(1));
  }
  return real_path(id, std::move(path));
}

std::string Server::read_link(std::uint32_t id, PacketReader& in) {
  const std::string path = in.path();
  char target[4096];
  const ssize_t size = in.ok() ? ::readlink(path.c_str(), target, sizeof target) : -1;
  if (size < 0) {
    return outcome(id, false);
  }
  return one_name(id, {target, static_cast<std::size_t>(size)});
}

std::string Server::rename(std::uint32_t id, PacketReader& in, bool replace) {
  const std::string from = in.path();
  const std::string to = in.path();
  if (!in.ok()) {
    return {};  // the caller says so
  }
  if (replace) {
    return outcome(id, ::rename(from.c_str(), to.c_str()) == 0);
  }
  constexpr unsigned kNoReplace = 1;
  return outcome(
      id, ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), kNoReplace) == 0);
}

std::string Server::filesystem(std::uint32_t id, PacketReader& in, bool by_handle) {
  struct statvfs info{};
  int done = -1;
  if (by_handle) {
    const OpenFile* file = find_file(in.bytes());
    done = file == nullptr ? -1 : ::fstatvfs(file->fd.get(), &info);
  } else {
    const std::string path = in.path();
    done = ::statvfs(path.c_str(), &info);
  }
  if (done != 0) {
    return outcome(id, false);
  }
  constexpr std::uint64_t kReadOnly = 1;
  constexpr std::uint64_t kNoSetId = 2;
  const std::uint64_t flags = ((info.f_flag & ST_RDONLY) != 0 ? kReadOnly : 0) |
                              ((info.f_flag & ST_NOSUID) != 0 ? kNoSetId : 0);
  return PacketWriter{Type::kExtendedReply, id}
      .u64(info.f_bsize)
      .u64(info.f_frsize)
      .u64(info.f_blocks)
      .u64(info.f_bfree)
      .u64(info.f_bavail)
      .u64(info.f_files)
      .u64(info.f_ffree)
      .u64(info.f_favail)
      .u64(info.f_fsid)
      .u64(flags)
      .u64(info.f_namemax)
      .finish();
}

}  // namespace atl::guest::sftp
