#include "io/stream.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/strings.h"
#include "io/fd_passing.h"

namespace atl::io {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<SocketAddress> tcp_address(const std::string& host, std::uint16_t port) {
  SocketAddress address;
  const std::string literal = host == "localhost" ? "127.0.0.1" : host;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, literal.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof *v4;
  } else if (::inet_pton(AF_INET6, literal.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.size = sizeof *v6;
  } else {
    return fail(Code::kInvalidArgument,
                concat("\"", host, "\" is not an IP address; use for example 127.0.0.1 or ::1"));
  }
  return address;
}

Result<SocketAddress> unix_address(const std::string& path) {
  SocketAddress address;
  auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.size() >= sizeof un->sun_path) {
    return fail(Code::kInvalidArgument, concat("socket path is longer than 107 bytes: ", path,
                                               "; use a shorter data directory"));
  }
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path, path.c_str(), path.size() + 1);
  address.size = sizeof *un;
  return address;
}

Result<Fd> open_socket(int family) {
  Fd fd{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!fd) {
    return fail_errno("creating a socket");
  }
  if (family != AF_UNIX) {
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return fd;
}

Task<std::unique_ptr<FdStream>> connect_to(Reactor& reactor, SocketAddress address,
                                           std::string what) {
  CO_TRY(Fd fd, open_socket(address.storage.ss_family));
  if (address.storage.ss_family == AF_UNIX) {
    (void)let_descriptors_come(fd.get(), false);  // until somebody wants one
  }
  int error = ::connect(fd.get(), address.get(), address.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    {
      FdWatch watch{reactor, fd.get()};
      CO_TRY_DO(co_await watch.writable());
    }
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  } else if (error == EAGAIN) {
    error = ECONNREFUSED;  // a unix listener whose backlog is full
  }
  if (error != 0) {
    co_return fail(errno_error(what, error));
  }
  co_return std::make_unique<FdStream>(reactor, std::move(fd));
}

// As many as the kernel lets wait: a storm of clients is not worth a retry of each.
constexpr int kBacklog = 4096;

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

}  // namespace

Task<> Stream::wait_readable() {
  co_return fail(Code::kInternal, "this stream cannot be watched");
}

Task<std::size_t> Stream::read_passing(std::span<char>, Fd&) {
  co_return fail(Code::kInternal, "this stream passes no descriptors");
}

Task<> Stream::write_passing(std::string_view, int) {
  co_return fail(Code::kInternal, "this stream passes no descriptors");
}

FdStream::FdStream(Reactor& reactor, Fd fd) : fd_(std::move(fd)), watch_(reactor, fd_.get()) {}

Task<std::size_t> FdStream::read(std::span<char> buffer) {
  for (;;) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got >= 0) {
      co_return static_cast<std::size_t>(got);
    }
    if (would_block()) {
      CO_TRY_DO(co_await watch_.readable());
    } else if (errno != EINTR) {
      co_return fail_errno("reading from a connection");
    }
  }
}

Task<> FdStream::wait_readable() {
  co_return co_await watch_.readable();
}

Task<> FdStream::write(std::string_view bytes) {
  return write(bytes, {});
}

Task<> FdStream::write(std::string_view first, std::string_view second) {
  while (!first.empty() || !second.empty()) {
    iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                      {const_cast<char*>(second.data()), second.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    ssize_t wrote = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (wrote < 0 && errno == ENOTSOCK) {
      wrote = ::writev(fd_.get(), parts, 2);
    }
    if (wrote < 0) {
      if (would_block()) {
        CO_TRY_DO(co_await watch_.writable());
      } else if (errno != EINTR) {
        co_return fail_errno("writing to a connection");
      }
      continue;
    }
    const auto done = static_cast<std::size_t>(wrote);
    const auto of_first = std::min(done, first.size());
    first.remove_prefix(of_first);
    second.remove_prefix(done - of_first);
  }
  co_return ok();
}

Task<std::size_t> FdStream::read_passing(std::span<char> buffer, Fd& passed) {
  for (;;) {
    auto datagram = receive_part(fd_.get(), buffer, passed);
    if (datagram) {
      co_return *datagram;
    }
    if (datagram.error().reason != "EAGAIN") {
      co_return fail(std::move(datagram).error());
    }
    CO_TRY_DO(co_await watch_.readable());
  }
}

Task<> FdStream::write_passing(std::string_view bytes, int passed) {
  for (;;) {
    auto sent = send_datagram(fd_.get(), bytes.substr(0, 1), {passed});
    if (sent) {
      co_return co_await write(bytes.substr(1), {});
    }
    if (sent.error().reason != "EAGAIN") {
      co_return fail(std::move(sent).error());
    }
    CO_TRY_DO(co_await watch_.writable());
  }
}

Result<> FdStream::finish_writing() {
  if (::shutdown(fd_.get(), SHUT_WR) != 0) {
    return fail_errno("finishing a connection");
  }
  return {};
}

void FdStream::write_now(std::string_view bytes) {
  [[maybe_unused]] const auto ignored =
      ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Task<> read_exactly(Stream& stream, std::span<char> buffer) {
  while (!buffer.empty()) {
    CO_TRY(const auto got, co_await stream.read(buffer));
    if (got == 0) {
      co_return fail(Code::kUnavailable, "the peer closed the connection", "closed");
    }
    buffer = buffer.subspan(got);
  }
  co_return ok();
}

Task<std::unique_ptr<FdStream>> connect_unix(Reactor& reactor, std::string path) {
  CO_TRY(auto address, unix_address(path));
  co_return co_await connect_to(reactor, address, concat("connecting to ", path));
}

Task<std::unique_ptr<FdStream>> connect_tcp(Reactor& reactor, std::string host,
                                            std::uint16_t port) {
  CO_TRY(auto address, tcp_address(host, port));
  co_return co_await connect_to(reactor, address, concat("connecting to ", host, ":", port));
}

Result<Fd> Listener::bind_tcp(const std::string& host, std::uint16_t port) {
  TRY(auto address, tcp_address(host, port));
  TRY(Fd fd, open_socket(address.storage.ss_family));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), address.get(), address.size) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return fail_errno(concat("listening on ", host, ":", port));
  }
  return fd;
}

Result<Fd> Listener::bind_unix(const std::string& path, unsigned mode) {
  TRY(auto address, unix_address(path));
  TRY(Fd fd, open_socket(AF_UNIX));
  ::unlink(path.c_str());
  if (::bind(fd.get(), address.get(), address.size) != 0 || ::chmod(path.c_str(), mode) != 0 ||
      ::listen(fd.get(), 1024) != 0) {
    return fail_errno(concat("listening on ", path));
  }
  return fd;
}

Listener::Listener(Reactor& reactor, Fd fd)
    : reactor_(reactor), fd_(std::move(fd)), watch_(reactor, fd_.get()) {}

Task<std::unique_ptr<FdStream>> Listener::accept() {
  for (;;) {
    Fd fd{::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (fd) {
      const int on = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails on unix: fine
      co_return std::make_unique<FdStream>(reactor_, std::move(fd));
    }
    if (would_block()) {
      CO_TRY_DO(co_await watch_.readable());
    } else if (errno != EINTR && errno != ECONNABORTED) {
      co_return fail_errno("accepting a connection");
    }
  }
}

std::uint16_t Listener::port() const {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&storage), &size);
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

namespace {

Fd open_signal_fd(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : signals) {
    sigaddset(&set, number);
  }
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  Fd fd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
  CHECK(fd);
  return fd;
}

}  // namespace

SignalWatch::SignalWatch(Reactor& reactor, std::initializer_list<int> signals)
    : fd_(open_signal_fd(signals)), watch_(reactor, fd_.get()) {}

Task<int> SignalWatch::next() {
  for (;;) {
    signalfd_siginfo info{};
    if (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      co_return static_cast<int>(info.ssi_signo);
    }
    CO_TRY_DO(co_await watch_.readable());
  }
}

}  // namespace atl::io
