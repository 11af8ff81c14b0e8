#include "io/fd_passing.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "io/foreign_fd.h"

namespace atl::io {

Result<> send_datagram(int socket, std::string_view bytes, const std::vector<int>& fds) {
  CHECK(fds.size() <= kMaxPassedFds && !bytes.empty());
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPassedFds)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) {
      return fail_errno("sending a message");
    }
  }
  return {};
}

namespace {

// What the kernel carries at a time. Those that find no room are closed by the call that receives.
constexpr std::size_t kMostFds = 253;
#ifndef SO_PASSRIGHTS
constexpr int SO_PASSRIGHTS = 83;  // Linux 6.16
#endif

struct Received {
  std::size_t bytes = 0;
  std::vector<Fd> fds;
  bool truncated = false;
};

Result<Received> receive(int socket, std::span<char> buffer, int flags = 0) {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  while ((got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags)) < 0) {
    if (errno != EINTR) {
      return fail_errno("receiving a message");
    }
  }
  Received received{.bytes = static_cast<std::size_t>(got)};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        received.fds.emplace_back(fd);
      }
    }
  }
  received.truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  return received;
}

Result<Datagram> receive_whole(int socket, std::size_t max_bytes, int flags) {
  Datagram datagram;
  datagram.bytes.resize(max_bytes);
  TRY(auto received, receive(socket, datagram.bytes, flags));
  if (received.truncated || received.fds.size() > kMaxPassedFds) {
    return fail(Code::kInvalidArgument, "message is too large", "malformed");
  }
  datagram.bytes.resize(received.bytes);
  datagram.fds = std::move(received.fds);
  return datagram;
}

}  // namespace

Result<Datagram> receive_datagram(int socket, std::size_t max_bytes) {
  return receive_whole(socket, max_bytes, 0);
}

Result<Datagram> look_at_datagram(int socket, std::size_t max_bytes) {
  return receive_whole(socket, max_bytes, MSG_PEEK);
}

Result<std::size_t> receive_part(int socket, std::span<char> buffer, Fd& passed) {
  TRY(auto received, receive(socket, buffer));
  const bool too_many = received.fds.size() + (passed ? 1 : 0) > 1;
  if (received.truncated || too_many) {
    for (Fd& each : received.fds) {
      close_elsewhere(std::move(each));
    }
    if (too_many) {
      return fail(Code::kInvalidArgument, "more than one descriptor came", "malformed");
    }
    return fail(Code::kResourceExhausted, "a descriptor was passed and could not be received",
                std::string{kDescriptorLost});
  }
  if (!received.fds.empty()) {
    passed = std::move(received.fds.front());
  }
  return received.bytes;
}

bool let_descriptors_come(int socket, bool come) {
  const int value = come ? 1 : 0;
  return ::setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof value) == 0;
}

bool may_descriptors_come(int socket) {
  int value = 1;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &value, &size) != 0 || value != 0;
}

}  // namespace atl::io
