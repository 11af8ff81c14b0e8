#include "guest/input.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr std::string_view kEndOfTransmission{"\x04", 1};

}  // namespace

Result<> Input::start(Fd fd, bool terminal, std::function<void()> on_room) {
  TRY_DO(watch_.start(fd.get(), 0, [this](std::uint32_t) {
    flush();
    if (!full()) {
      on_room_();
    }
  }));
  watch_.pause();
  fd_ = std::move(fd);
  terminal_ = terminal;
  on_room_ = std::move(on_room);
  return {};
}

bool Input::full() const {
  return pending_.size() - written_bytes_ >= kMaxPendingInputBytes;
}

void Input::write(std::string_view bytes) {
  if (open()) {
    pending_.erase(0, written_bytes_);
    written_bytes_ = 0;
    pending_ += bytes;
    flush();
  }
}

void Input::end() {
  if (terminal_) {
    write(kEndOfTransmission);
    return;
  }
  ending_ = true;
  flush();
}

void Input::flush() {
  while (fd_ && written_bytes_ < pending_.size()) {
    const ssize_t wrote =
        ::write(fd_.get(), pending_.data() + written_bytes_, pending_.size() - written_bytes_);
    if (wrote < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno == EAGAIN) {
        watch_.want(EPOLLOUT);
        return;
      }
      close();  // EPIPE, or EIO from a terminal: nobody reads any more
      return;
    }
    written_bytes_ += static_cast<std::size_t>(wrote);
  }
  watch_.pause();
  pending_ = {};
  written_bytes_ = 0;
  if (ending_) {
    close();
  }
}

void Input::close() {
  watch_.stop();
  fd_.reset();
  pending_ = {};
  written_bytes_ = 0;
}

}  // namespace atl::guest
