#include "guest/sftp_server.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "base/strings.h"

namespace atl::guest::sftp {
namespace {

constexpr std::size_t kLengthBytes = 4;

std::string version() {
  // The id's place is the version.
  return PacketWriter{Type::kVersion, kVersion}
      .bytes("posix-rename@openssh.com")
      .bytes("1")
      .bytes("statvfs@openssh.com")
      .bytes("2")
      .bytes("fstatvfs@openssh.com")
      .bytes("2")
      .bytes("hardlink@openssh.com")
      .bytes("1")
      .bytes("fsync@openssh.com")
      .bytes("1")
      .bytes("lsetstat@openssh.com")
      .bytes("1")
      .bytes("limits@openssh.com")
      .bytes("1")
      .bytes("expand-path@openssh.com")
      .bytes("1")
      .finish();
}

bool wait_for(int fd, short events) {
  pollfd state{fd, events, 0};
  return ::poll(&state, 1, -1) > 0;
}

// Fills the buffer; false at the end of the input.
bool read_fully(int fd, char* buffer, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(fd, buffer, size);
    if (got > 0) {
      buffer += got;
      size -= static_cast<std::size_t>(got);
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN) || !wait_for(fd, POLLIN)) {
      return false;
    }
  }
  return true;
}

bool write_fully(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(put));
    } else if ((errno != EINTR && errno != EAGAIN) || !wait_for(fd, POLLOUT)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string Server::answer(std::string_view packet) {
  PacketReader in{packet};
  const auto type = static_cast<Type>(in.u8());
  const std::uint32_t id = in.u32();
  if (!in.ok()) {
    return status_packet(0, Status::kBadMessage);
  }
  if (type == Type::kInit) {
    return version();
  }
  std::string reply = dispatch(type, id, in);
  return in.ok() ? reply : status_packet(id, Status::kBadMessage);
}

std::string Server::dispatch(Type type, std::uint32_t id, PacketReader& in) {
  switch (type) {
    case Type::kOpen:
      return open(id, in);
    case Type::kClose:
      return close(id, in);
    case Type::kRead:
      return read(id, in);
    case Type::kWrite:
      return write(id, in);
    case Type::kLstat:
      return stat(id, in, false);
    case Type::kStat:
      return stat(id, in, true);
    case Type::kFstat:
      return fstat(id, in);
    case Type::kSetstat:
      return set_attributes(id, in, true);
    case Type::kFsetstat:
      return fset_attributes(id, in);
    case Type::kOpendir:
      return open_directory(id, in);
    case Type::kReaddir:
      return read_directory(id, in);
    case Type::kRemove: {
      const std::string path = in.path();
      return status_packet(id, status_of(in.ok() && ::unlink(path.c_str()) == 0 ? 0 : errno));
    }
    case Type::kMkdir: {
      const std::string path = in.path();
      const mode_t mode = in.attributes().mode.value_or(0777) & 07777U;
      return status_packet(id, status_of(in.ok() && ::mkdir(path.c_str(), mode) == 0 ? 0 : errno));
    }
    case Type::kRmdir: {
      const std::string path = in.path();
      return status_packet(id, status_of(in.ok() && ::rmdir(path.c_str()) == 0 ? 0 : errno));
    }
    case Type::kRealpath:
      return real_path(id, in.path());
    case Type::kRename:
      return rename(id, in, false);
    case Type::kReadlink:
      return read_link(id, in);
    case Type::kSymlink: {
      // In the order that OpenSSH has made the usual one: what it points to first.
      const std::string target = in.path();
      const std::string link = in.path();
      return status_packet(
          id, status_of(in.ok() && ::symlink(target.c_str(), link.c_str()) == 0 ? 0 : errno));
    }
    case Type::kExtended:
      return extended(id, in);
    default:
      return status_packet(id, Status::kUnsupported);
  }
}

std::string Server::extended(std::uint32_t id, PacketReader& in) {
  const std::string_view name = in.bytes();
  if (name == "posix-rename@openssh.com") {
    return rename(id, in, true);
  }
  if (name == "statvfs@openssh.com") {
    return filesystem(id, in, false);
  }
  if (name == "fstatvfs@openssh.com") {
    return filesystem(id, in, true);
  }
  if (name == "hardlink@openssh.com") {
    const std::string from = in.path();
    const std::string to = in.path();
    return status_packet(id,
                         status_of(in.ok() && ::link(from.c_str(), to.c_str()) == 0 ? 0 : errno));
  }
  if (name == "fsync@openssh.com") {
    const OpenFile* file = find_file(in.bytes());
    return status_packet(id, file == nullptr ? Status::kNoSuchFile
                                             : status_of(::fsync(file->fd.get()) == 0 ? 0 : errno));
  }
  if (name == "lsetstat@openssh.com") {
    return set_attributes(id, in, false);
  }
  if (name == "limits@openssh.com") {
    return PacketWriter{Type::kExtendedReply, id}
        .u64(kMaxPacketBytes)
        .u64(kMaxDataBytes)
        .u64(kMaxDataBytes)
        .u64(kMaxHandles)
        .finish();
  }
  if (name == "expand-path@openssh.com") {
    return expand_path(id, in);
  }
  return status_packet(id, Status::kUnsupported);
}

int serve(int input, int output) {
  Server server;
  std::string packet;
  for (;;) {
    char length[kLengthBytes];
    if (!read_fully(input, length, sizeof length)) {
      return 0;
    }
    const std::uint32_t size = PacketReader{{length, sizeof length}}.u32();
    if (size == 0 || size > kMaxPacketBytes) {
      return 1;
    }
    packet.resize(size);
    if (!read_fully(input, packet.data(), packet.size()) ||
        !write_fully(output, server.answer(packet))) {
      return 1;
    }
  }
}

}  // namespace atl::guest::sftp
