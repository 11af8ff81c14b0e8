// For tests: a client that speaks frames to an agent.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "base/fd.h"
#include "guest/wire.h"

namespace atl::guest {

struct TestFrame {
  Kind kind = Kind::kError;
  std::string payload;
};

class TestClient {
 public:
  explicit TestClient(const std::string& socket_path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path.c_str());
    fd_ = Fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  bool send_bytes(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  bool send(Kind kind, std::string_view payload = {}) {
    return send_bytes(encode_frame(kind, payload));
  }

  bool send_passing(Kind kind, std::string_view payload, int descriptor) {
    const std::string frame = encode_frame(kind, payload);
    iovec part{const_cast<char*>(frame.data()), 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL) == 1 &&
           send_bytes(std::string_view{frame}.substr(1));
  }
  // The last descriptor that came with a frame.
  Fd take_passed() { return std::move(passed_); }

  // The next frame; nullopt at the end of the connection. A minute of silence is a failed test.
  std::optional<TestFrame> receive() {
    std::string header(kFrameHeaderBytes, '\0');
    if (!fill(header)) {
      return std::nullopt;
    }
    const auto decoded = decode_header(header);
    EXPECT_TRUE(decoded);
    std::string payload(decoded ? decoded->payload_bytes : 0, '\0');
    if (!decoded || !fill(payload)) {
      ADD_FAILURE() << "connection ended within a frame";
      return std::nullopt;
    }
    return TestFrame{decoded->kind, std::move(payload)};
  }

  // True when nothing arrives for a moment: only to see that something does not happen.
  bool silent(int ms) {
    pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, ms) == 0;
  }
  // How much can be sent without the other side reading, up to `max_bytes`.
  std::size_t send_until_blocked(std::string_view bytes, std::size_t max_bytes, int patience_ms) {
    std::size_t total = 0;
    while (total < max_bytes) {
      pollfd entry{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
      if (::poll(&entry, 1, patience_ms) == 0) {
        return total;
      }
      const ssize_t sent =
          ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        total += static_cast<std::size_t>(sent);
        bytes.remove_prefix(static_cast<std::size_t>(sent));
        if (bytes.empty()) {
          return total;
        }
      } else if (errno != EAGAIN) {
        return total;
      }
    }
    return total;
  }
  void close() { fd_.reset(); }
  // False: this kernel cannot.
  bool refuse_descriptors() {
    constexpr int kPassRights = 83;  // SO_PASSRIGHTS, Linux 6.16
    const int off = 0;
    return ::setsockopt(fd_.get(), SOL_SOCKET, kPassRights, &off, sizeof off) == 0;
  }
  void stop_sending() { ::shutdown(fd_.get(), SHUT_WR); }

 private:
  bool fill(std::string& buffer) {
    std::size_t got = 0;
    while (got < buffer.size()) {
      pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, 60000) == 0) {
        ADD_FAILURE() << "no answer";
        return false;
      }
      const ssize_t size = receive_part(buffer.data() + got, buffer.size() - got);
      if (size <= 0) {
        return false;
      }
      got += static_cast<std::size_t>(size);
    }
    return true;
  }

  ssize_t receive_part(char* buffer, std::size_t bytes) {
    iovec part{buffer, bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t size = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
    if (const cmsghdr* rights = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
      passed_ = Fd{descriptor};
    }
    return size;
  }

  Fd fd_;
  Fd passed_;
};

}  // namespace atl::guest
