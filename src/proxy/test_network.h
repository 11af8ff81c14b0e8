// Two networks for tests: outside, where this thread is and servers listen, and inside, a network
// namespace like a sandbox's, in which every address is local. Nothing leaves either.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/fd.h"
#include "base/strings.h"
#include "io/stream.h"
#include "proxy/endpoint.h"
#include "proxy/proxy.h"
#include "proxy/socket.h"

namespace atl::proxy {

inline void shell(const std::string& command) {
  CHECK(std::system(command.c_str()) == 0);
}

inline Endpoint at(std::string_view text) {
  const auto endpoint = Endpoint::parse(text, 0);
  CHECK(endpoint.has_value());
  return *endpoint;
}

// Addresses that stand for the internet. Their class is closed (documentation), so the proxies
// under test have them opened.
inline void enter_outside() {
  static const bool kEntered = [] {
    std::signal(SIGPIPE, SIG_IGN);
    if (::unshare(CLONE_NEWNET) != 0) {
      return false;
    }
    shell("ip link set lo up");
    for (const char* host : {"5", "6", "9", "53"}) {
      shell(concat("ip addr add 203.0.113.", host, "/32 dev lo"));
    }
    shell("ip addr add 10.9.9.9/32 dev lo");
    shell("ip -6 addr add 2001:db8::5/128 dev lo nodad");
    return true;
  }();
  CHECK(kEntered);
}

class Inside {
 public:
  Inside() {
    std::thread{[this] {
      CHECK(::unshare(CLONE_NEWNET) == 0);
      shell(
          "ip link set lo up && ip addr add 10.200.0.2/32 dev lo && "
          "ip route add local default dev lo src 10.200.0.2 && "
          "ip -6 addr add fd00:a70:11::2/128 dev lo nodad && "
          "ip -6 route add local default dev lo src fd00:a70:11::2");
      namespace_ = Fd{::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)};
      CHECK(namespace_);
    }}.join();
  }

  Fd socket(int type) {
    Fd made;
    std::thread{[&] {
      CHECK(::setns(namespace_.get(), CLONE_NEWNET) == 0);
      made = Fd{::socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
      CHECK(made);
    }}.join();
    const int on = 1;
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return made;
  }
  // A socket that gets what is sent to this port of any address.
  Fd catch_all(int type, std::uint16_t port) {
    Fd made = socket(type);
    const SocketAddress address = mapped_socket_address({egress::Address{}, port});
    CHECK(::bind(made.get(), address.get(), address.size) == 0);
    CHECK(type != SOCK_STREAM || ::listen(made.get(), 1024) == 0);
    return made;
  }
  // Like a program in the sandbox.
  std::unique_ptr<io::FdStream> connect(io::Reactor& reactor, std::string_view target) {
    Fd made = socket(SOCK_STREAM);
    const SocketAddress address = mapped_socket_address(at(target));
    const int result = ::connect(made.get(), address.get(), address.size);
    CHECK(result == 0 || errno == EINPROGRESS);
    return std::make_unique<io::FdStream>(reactor, std::move(made));
  }

 private:
  Fd namespace_;
};

inline Task<std::string> read_to_end(io::Stream& stream) {
  std::string all;
  char buffer[16384];
  for (;;) {
    auto got = co_await stream.read(buffer);
    if (!got || *got == 0) {
      if (!got) {
        all += concat("<", got.error().reason, ">");
      }
      co_return all;
    }
    all.append(buffer, *got);
  }
}

inline Task<std::string> read_some(io::Stream& stream) {
  char buffer[16384];
  CO_TRY(const auto got, co_await stream.read(buffer));
  co_return std::string{buffer, got};
}

}  // namespace atl::proxy
