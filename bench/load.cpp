// Both ends of a TCP connection, for measuring what is between them. Static, so that it runs in any
// sandbox.
//
//   atoll-load serve ADDRESS PORT             echoes; a first byte 'd' and a decimal number and a
//                                             line end ask for so many bytes instead
//   atoll-load connections ADDRESS PORT N     one after another: connect, a byte there and back
//   atoll-load rate ADDRESS PORT SECONDS N    the same, N at a time, as many as there can be
//   atoll-load download ADDRESS PORT BYTES    one connection
//   atoll-load idle ADDRESS PORT N            holds N connections until standard input ends
//
// Prints one line of JSON.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kBufferBytes = 1U << 18U;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in address_of(const char* host, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (::inet_pton(AF_INET, host, &address.sin_addr) != 1) {
    give_up("address");
  }
  return address;
}

int connect_to(const sockaddr_in& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return -1;
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

bool there_and_back(int fd) {
  char byte = 'e';
  return ::send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && ::recv(fd, &byte, 1, 0) == 1;
}

void send_bytes(int fd, std::size_t left) {
  static const std::string block(kBufferBytes, 'x');
  while (left > 0) {
    const auto sent = ::send(fd, block.data(), std::min(left, block.size()), MSG_NOSIGNAL);
    if (sent <= 0) {
      return;
    }
    left -= static_cast<std::size_t>(sent);
  }
}

void serve_one(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  char buffer[256];
  while (true) {
    const auto size = ::recv(fd, buffer, sizeof buffer - 1, 0);
    if (size <= 0) {
      break;
    }
    buffer[size] = '\0';
    if (buffer[0] == 'd') {
      send_bytes(fd, std::strtoull(buffer + 1, nullptr, 10));
    } else if (::send(fd, buffer, static_cast<std::size_t>(size), MSG_NOSIGNAL) != size) {
      break;
    }
  }
  ::close(fd);
}

int serve(const sockaddr_in& address) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 4096) != 0) {
    give_up("listen");
  }
  while (true) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
      std::thread{serve_one, fd}.detach();
    }
  }
}

int connections(const sockaddr_in& address, std::size_t count) {
  std::vector<double> times;
  for (std::size_t n = 0; n < count; ++n) {
    const auto begin = Clock::now();
    const int fd = connect_to(address);
    if (fd < 0 || !there_and_back(fd)) {
      give_up("connect");
    }
    times.push_back(seconds_since(begin) * 1e3);
    ::close(fd);
  }
  std::sort(times.begin(), times.end());
  std::printf("{\"p50_ms\":%.4f,\"p99_ms\":%.4f}\n", times[count / 2], times[count * 99 / 100]);
  return 0;
}

int rate(const sockaddr_in& address, double seconds, std::size_t parallel) {
  std::atomic<std::size_t> done{0};
  std::atomic<std::size_t> failed{0};
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (std::size_t n = 0; n < parallel; ++n) {
    threads.emplace_back([&] {
      while (seconds_since(begin) < seconds) {
        const int fd = connect_to(address);
        (fd >= 0 && there_and_back(fd) ? done : failed) += 1;
        ::close(fd);
      }
    });
  }
  for (auto& each : threads) {
    each.join();
  }
  std::printf("{\"per_second\":%.0f,\"failed\":%zu}\n",
              static_cast<double>(done) / seconds_since(begin), failed.load());
  return 0;
}

int download(const sockaddr_in& address, const char* bytes) {
  const int fd = connect_to(address);
  const std::string order = std::string{"d"} + bytes + "\n";
  const auto begin = Clock::now();
  if (fd < 0 || ::send(fd, order.data(), order.size(), MSG_NOSIGNAL) < 0) {
    give_up("connect");
  }
  std::vector<char> buffer(kBufferBytes);
  auto left = static_cast<std::ptrdiff_t>(std::strtoull(bytes, nullptr, 10));
  const auto whole = static_cast<double>(left);
  while (left > 0) {
    const auto size = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (size <= 0) {
      give_up("download");
    }
    left -= size;
  }
  std::printf("{\"mib_per_second\":%.1f}\n", whole / (1 << 20) / seconds_since(begin));
  return 0;
}

int idle(const sockaddr_in& address, std::size_t count) {
  const rlimit many{65536, 65536};
  ::setrlimit(RLIMIT_NOFILE, &many);
  std::size_t open = 0;
  for (std::size_t n = 0; n < count; ++n) {
    const int fd = connect_to(address);
    open += fd >= 0 && there_and_back(fd) ? 1 : 0;
  }
  std::printf("{\"open\":%zu}\n", open);
  std::fflush(stdout);
  char byte = 0;
  while (::read(0, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view what = count > 3 ? arguments[1] : "";
  if (what.empty() || (what != "serve" && count < 5) || (what == "rate" && count < 6)) {
    std::fprintf(stderr, "atoll-load serve|connections|rate|download|idle ADDRESS PORT ...\n");
    return 2;
  }
  const auto address = address_of(arguments[2], arguments[3]);
  if (what == "serve") {
    return serve(address);
  }
  const auto number = std::strtoull(arguments[4], nullptr, 10);
  if (what == "connections") {
    return connections(address, number);
  }
  if (what == "rate") {
    return rate(address, static_cast<double>(number), std::strtoull(arguments[5], nullptr, 10));
  }
  if (what == "download") {
    return download(address, arguments[4]);
  }
  return what == "idle" ? idle(address, number) : 2;
}
