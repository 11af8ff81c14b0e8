#include "cli/descriptor_gate.h"

#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

namespace atl::cli {

Result<std::unique_ptr<DescriptorGate>> DescriptorGate::open(io::Reactor& reactor, int fd,
                                                             Direction direction) {
  std::unique_ptr<DescriptorGate> gate{new DescriptorGate{fd, direction}};
  gate->epoll_ = Fd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!gate->epoll_) {
    return fail_errno("creating an epoll descriptor");
  }
  epoll_event event{};
  event.events = direction == Direction::kReadable ? EPOLLIN : EPOLLOUT;
  if (::epoll_ctl(gate->epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    if (errno != EPERM) {
      return fail_errno("watching a standard descriptor");
    }
    gate->epoll_.reset();
    return gate;
  }
  gate->watch_ = std::make_unique<io::FdWatch>(reactor, gate->epoll_.get());
  return gate;
}

Task<> DescriptorGate::ready() {
  if (always_ready()) {
    co_return ok();
  }
  const short events = direction_ == Direction::kReadable ? POLLIN : POLLOUT;
  for (;;) {
    pollfd poll_entry{.fd = fd_, .events = events, .revents = 0};
    if (::poll(&poll_entry, 1, 0) > 0) {
      co_return ok();  // also on a hang-up or error: the call itself will say
    }
    CO_TRY_DO(co_await watch_->readable());
  }
}

Result<std::unique_ptr<SharedReader>> SharedReader::open(io::Reactor& reactor, int fd) {
  TRY(auto gate, DescriptorGate::open(reactor, fd, DescriptorGate::Direction::kReadable));
  return std::unique_ptr<SharedReader>{new SharedReader{fd, std::move(gate)}};
}

Task<std::size_t> SharedReader::read(std::span<char> buffer) {
  for (;;) {
    CO_TRY_DO(co_await gate_->ready());
    const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
    if (got >= 0) {
      co_return static_cast<std::size_t>(got);
    }
    if (errno != EINTR && errno != EAGAIN) {
      co_return fail_errno("reading standard input");
    }
  }
}

Result<std::unique_ptr<SharedWriter>> SharedWriter::open(io::Reactor& reactor, int fd) {
  TRY(auto gate, DescriptorGate::open(reactor, fd, DescriptorGate::Direction::kWritable));
  return std::unique_ptr<SharedWriter>{new SharedWriter{fd, std::move(gate)}};
}

Task<> SharedWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    CO_TRY_DO(co_await gate_->ready());
    const auto chunk = gate_->always_ready() ? bytes : bytes.substr(0, PIPE_BUF);
    const ssize_t wrote = ::write(fd_, chunk.data(), chunk.size());
    if (wrote >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(wrote));
    } else if (errno == EPIPE) {
      co_return fail(Code::kAborted, "nobody reads the output any more", "broken_pipe");
    } else if (errno != EINTR && errno != EAGAIN) {
      co_return fail_errno("writing output");
    }
  }
  co_return ok();
}

}  // namespace atl::cli
