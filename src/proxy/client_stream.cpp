#include "proxy/client_stream.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace atl::proxy {

Task<std::size_t> ClientStream::read(std::span<char> buffer) {
  if (first_given_ < first_.size()) {
    const std::size_t size = std::min(buffer.size(), first_.size() - first_given_);
    std::copy_n(first_.data() + first_given_, size, buffer.data());
    first_given_ += size;
    if (first_given_ == first_.size()) {
      std::string{}.swap(first_);
      first_given_ = 0;
    }
    co_return size;
  }
  std::size_t most = meter_.allowed(Direction::kOut, buffer.size());
  while (most == 0) {
    CO_TRY_DO(co_await sleep_for(meter_.wait_time(Direction::kOut)));
    most = meter_.allowed(Direction::kOut, buffer.size());
  }
  for (;;) {
    const ssize_t got = ::recv(socket_.fd.get(), buffer.data(), most, 0);
    if (got >= 0) {
      meter_.moved(Direction::kOut, static_cast<std::size_t>(got));
      co_return static_cast<std::size_t>(got);
    }
    if (errno == EAGAIN) {
      CO_TRY_DO(co_await socket_.watch.readable());
    } else if (errno != EINTR) {
      co_return fail_errno("reading from a connection");
    }
  }
}

Task<> ClientStream::write(std::string_view bytes) {
  return write(bytes, {});
}

Task<> ClientStream::write(std::string_view first, std::string_view second) {
  while (!first.empty() || !second.empty()) {
    const std::size_t most = meter_.allowed(Direction::kIn, first.size() + second.size());
    if (most == 0) {
      CO_TRY_DO(co_await sleep_for(meter_.wait_time(Direction::kIn)));
      continue;
    }
    const std::size_t of_first = std::min(most, first.size());
    iovec parts[2] = {{const_cast<char*>(first.data()), of_first},
                      {const_cast<char*>(second.data()), most - of_first}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(socket_.fd.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EAGAIN) {
        CO_TRY_DO(co_await socket_.watch.writable());
      } else if (errno != EINTR) {
        co_return fail_errno("writing to a connection");
      }
      continue;
    }
    const auto done = static_cast<std::size_t>(sent);
    meter_.moved(Direction::kIn, done);
    const std::size_t first_done = std::min(done, first.size());
    first.remove_prefix(first_done);
    second.remove_prefix(done - first_done);
  }
  co_return ok();
}

Task<> ClientStream::wait_readable() {
  if (first_given_ == first_.size()) {
    CO_TRY_DO(co_await socket_.watch.readable());
  }
  co_return ok();
}

Result<> ClientStream::finish_writing() {
  if (::shutdown(socket_.fd.get(), SHUT_WR) != 0) {
    return fail_errno("finishing a connection");
  }
  return {};
}

}  // namespace atl::proxy
