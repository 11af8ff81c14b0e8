#include "runtime/namespaces/mount_transfer.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace atl::runtime::namespaces {
namespace {

// One byte of data and room for the descriptors.
struct Envelope {
  explicit Envelope(std::size_t count) {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  alignas(cmsghdr) char control[CMSG_SPACE(kMaxTransferredMounts * sizeof(int))] = {};
  char byte = 1;
  iovec data{&byte, 1};
  msghdr message{};
};

}  // namespace

Result<> send_mounts(int channel, const std::vector<Fd>& mounts) {
  CHECK(!mounts.empty() && mounts.size() <= kMaxTransferredMounts);
  Envelope envelope{mounts.size()};
  cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(mounts.size() * sizeof(int));
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const int fd = mounts[i].get();
    std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
  }
  if (::sendmsg(channel, &envelope.message, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
      errno != ECONNRESET) {
    return fail_errno("sending mounts to the cell");
  }
  return {};
}

int receive_mounts(int channel, int* fds, std::size_t count) {
  Envelope envelope{count};
  ssize_t got = 0;
  do {
    got = ::recvmsg(channel, &envelope.message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return errno;
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
  if (got == 0 || (envelope.message.msg_flags & MSG_CTRUNC) != 0 || header == nullptr ||
      header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(count * sizeof(int))) {
    return EPIPE;
  }
  std::memcpy(fds, CMSG_DATA(header), count * sizeof(int));
  return 0;
}

}  // namespace atl::runtime::namespaces
