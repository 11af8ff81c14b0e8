#include "runtime/namespaces/cell_report.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace atl::runtime::namespaces {
namespace {

constexpr std::size_t kFdBytes = kNetworkSocketCount * sizeof(int);

constexpr char kOwnDescriptors = 'o';

// Room for a report, or the first word, and for descriptors.
struct Envelope {
  Envelope() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  void attach(const int* fds, std::size_t bytes) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), fds, bytes);
  }
  ssize_t receive(int channel) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t got = 0;
    do {
      got = ::recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    return got;
  }
  // Whether exactly so many bytes of descriptors came; others are closed.
  bool take(int* fds, std::size_t bytes) {
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      return false;
    }
    const std::size_t came = header->cmsg_len - CMSG_LEN(0);
    if (came != bytes) {
      int fd = -1;
      for (std::size_t at = 0; at + sizeof fd <= came; at += sizeof fd) {
        std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
        ::close(fd);
      }
      return false;
    }
    std::memcpy(fds, CMSG_DATA(header), bytes);
    return true;
  }

  alignas(cmsghdr) char control[CMSG_SPACE(kFdBytes)] = {};
  StepReport report{};
  iovec data{&report, sizeof report};
  msghdr message{};
};

// What the kernel does with descriptors for which there is no room: it leaves them out.
Error too_many_descriptors() {
  return Error{Code::kResourceExhausted,
               "the node has too many open files (raise its limit, LimitNOFILE in its unit)"};
}

}  // namespace

int send_own_descriptors(int channel, int listener) {
  Envelope envelope;
  char word = kOwnDescriptors;
  envelope.data = {&word, sizeof word};
  envelope.attach(&listener, sizeof listener);
  return ::sendmsg(channel, &envelope.message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

Result<Fd> wait_for_own_descriptors(int channel, int pidfd, int timeout_ms) {
  pollfd waiting[2] = {{channel, POLLIN, 0}, {pidfd, POLLIN, 0}};
  int ready = 0;
  do {
    ready = ::poll(waiting, 2, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) {
    return fail_errno("waiting for the cell's first word");
  }
  if (ready == 0) {
    return fail(Code::kDeadlineExceeded, "the cell did not begin in time");
  }
  Envelope envelope;
  const ssize_t got = waiting[0].revents != 0 ? envelope.receive(channel) : 0;
  if (got < 0 && errno != ECONNRESET) {
    return fail_errno("receiving the cell's first word");
  }
  if (got == 1) {
    int listener = -1;
    return envelope.take(&listener, sizeof listener) ? Result<Fd>{Fd{listener}}
                                                     : fail(too_many_descriptors());
  }
  if (got == sizeof envelope.report) {
    return fail(cell_step_error(envelope.report));
  }
  return fail(Code::kResourceExhausted,
              "the cell was killed before it began (is its memory limit too small?)");
}

int send_ready(int channel, const int (&fds)[kNetworkSocketCount]) {
  Envelope envelope;
  if (fds[0] >= 0) {
    envelope.attach(fds, kFdBytes);
  }
  return ::sendmsg(channel, &envelope.message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

Result<std::optional<CellReport>> receive_report(int channel) {
  Envelope envelope;
  const ssize_t got = envelope.receive(channel);
  if (got <= 0) {
    return std::optional<CellReport>{};  // a child that was killed resets its end
  }
  CellReport report;
  int fds[kNetworkSocketCount] = {};
  if (envelope.take(fds, kFdBytes)) {
    report.network = NetworkSockets{Fd{fds[0]}, Fd{fds[1]}, Fd{fds[2]}};
  }
  if ((envelope.message.msg_flags & MSG_CTRUNC) != 0) {
    return fail(too_many_descriptors());
  }
  if (got != sizeof envelope.report) {
    return fail(Code::kInternal, "a cell said something unknown");
  }
  report.step = envelope.report;
  return std::optional{std::move(report)};
}

}  // namespace atl::runtime::namespaces
