#include "runtime/namespaces/cell_report.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace atl::runtime::namespaces {
namespace {

constexpr std::size_t kFdBytes = kNetworkSocketCount * sizeof(int);

constexpr char kOwnDescriptors = 'o';

struct Envelope {
  Envelope() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  alignas(cmsghdr) char control[CMSG_SPACE(kFdBytes)] = {};
  StepReport report{};
  iovec data{&report, sizeof report};
  msghdr message{};
};

}  // namespace

int send_own_descriptors(int channel) {
  return ::send(channel, &kOwnDescriptors, 1, MSG_NOSIGNAL) == 1 ? 0 : errno;
}

Result<> wait_for_own_descriptors(int channel, int pidfd, int timeout_ms) {
  pollfd waiting[2] = {{channel, POLLIN, 0}, {pidfd, POLLIN, 0}};
  int ready = 0;
  do {
    ready = ::poll(waiting, 2, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  StepReport report{};
  const ssize_t got = ::recv(channel, &report, sizeof report, MSG_DONTWAIT);
  if (got == 1) {
    return {};
  }
  if (got == sizeof report) {
    return fail(cell_step_error(report));
  }
  return ready == 0 ? fail(Code::kDeadlineExceeded, "the cell did not begin in time")
                    : fail(Code::kResourceExhausted,
                           "the cell was killed before it began (is its memory limit too small?)");
}

int send_ready(int channel, const int (&fds)[kNetworkSocketCount]) {
  Envelope envelope;
  if (fds[0] >= 0) {
    envelope.message.msg_control = envelope.control;
    envelope.message.msg_controllen = sizeof envelope.control;
    cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(kFdBytes);
    std::memcpy(CMSG_DATA(header), fds, kFdBytes);
  }
  return ::sendmsg(channel, &envelope.message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

Result<std::optional<CellReport>> receive_report(int channel) {
  Envelope envelope;
  envelope.message.msg_control = envelope.control;
  envelope.message.msg_controllen = sizeof envelope.control;
  ssize_t got = 0;
  do {
    got = ::recvmsg(channel, &envelope.message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) {
    return std::optional<CellReport>{};  // a child that was killed resets its end
  }
  CellReport report;
  if (const cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
      header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(kFdBytes)) {
    int fds[kNetworkSocketCount] = {};
    std::memcpy(fds, CMSG_DATA(header), kFdBytes);
    report.network = NetworkSockets{Fd{fds[0]}, Fd{fds[1]}, Fd{fds[2]}};
  }
  if (got != sizeof envelope.report || (envelope.message.msg_flags & MSG_CTRUNC) != 0) {
    return fail(Code::kInternal, "a cell said something unknown");
  }
  report.step = envelope.report;
  return std::optional{std::move(report)};
}

}  // namespace atl::runtime::namespaces
