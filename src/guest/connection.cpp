#include "guest/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "guest/limits.h"

namespace atl::guest {

Connection::Connection(Owner& owner, Loop& loop, Fd socket, std::uint64_t serial)
    : owner_(owner), socket_(std::move(socket)), watch_(loop), serial_(serial) {}

Result<> Connection::start() {
  return watch_.start(socket_.get(), EPOLLIN, [this](std::uint32_t events) { on_events(events); });
}

void Connection::on_events(std::uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR)) != 0 && !peer_gone_) {
    peer_gone_ = true;
    output_ = {};
    sent_bytes_ = 0;
    if (finishing_ || !requested) {
      close();
      return;
    }
    owner_.on_peer_gone(*this);
  }
  if (!closed_ && (events & EPOLLOUT) != 0) {
    flush();
    if (!closed_ && !finishing_ && wants_output()) {
      owner_.on_drained(*this);
    }
  }
  if (!closed_ && !held_ && !input_ended_ && !finishing_ && (events & (EPOLLIN | EPOLLHUP)) != 0) {
    read_input();
  }
  update_interest();
}

// At most one descriptor is of use to anybody; the kernel closes what does not fit.
ssize_t Connection::receive(std::span<char> buffer) {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* rights = got < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (rights != nullptr && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
      rights->cmsg_len == CMSG_LEN(sizeof(int))) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
    descriptor_ = Fd{descriptor};
  }
  return got;
}

void Connection::read_input() {
  std::array<char, 16 * 1024> buffer;
  const ssize_t got = receive(buffer);
  if (got < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      close();
    }
    return;
  }
  if (got == 0) {
    input_ended_ = true;
    // A client that never completed its request, or that is not there any more, gets no answer.
    if (peer_gone_ || !requested) {
      close();
    }
    return;
  }
  input_.append(buffer.data(), static_cast<std::size_t>(got));
  parse_input();
}

void Connection::parse_input() {
  parsing_ = true;
  while (!closed_ && !finishing_ && !held_) {
    const std::string_view rest = std::string_view{input_}.substr(parsed_bytes_);
    if (rest.size() < kFrameHeaderBytes) {
      break;
    }
    const auto header = decode_header(rest.substr(0, kFrameHeaderBytes));
    if (!header) {
      send_error(header.error());
      break;
    }
    const std::size_t frame_bytes = kFrameHeaderBytes + header->payload_bytes;
    if (rest.size() < frame_bytes) {
      break;
    }
    parsed_bytes_ += frame_bytes;
    owner_.on_frame(*this, header->kind, rest.substr(kFrameHeaderBytes, header->payload_bytes));
  }
  parsing_ = false;
  if (closed_ || finishing_ || parsed_bytes_ == input_.size()) {
    input_ = {};  // gives the memory back
  } else {
    input_.erase(0, parsed_bytes_);
  }
  parsed_bytes_ = 0;
}

std::string_view Connection::input_after_frame() const {
  return std::string_view{input_}.substr(parsed_bytes_);
}

void Connection::send(Kind kind, std::string_view payload) {
  if (closed_ || peer_gone_ || finishing_) {
    return;
  }
  output_ += encode_frame(kind, payload);
  flush();
  update_interest();
}

void Connection::send_output(OutputHeader header, std::string_view bytes) {
  if (closed_ || peer_gone_ || finishing_) {
    return;
  }
  // The same bytes as encode_frame(kOutput, encode_output(...)), with one copy instead of three.
  constexpr std::size_t kOutputHeaderBytes = 9;
  ByteWriter head;
  head.u32(static_cast<std::uint32_t>(kOutputHeaderBytes + bytes.size()));
  head.u8(static_cast<std::uint8_t>(Kind::kOutput));
  head.u8(static_cast<std::uint8_t>(header.stream)).u64(header.offset);
  output_ += head.bytes();
  output_ += bytes;
  flush();
  update_interest();
}

void Connection::send_error(const Error& error) {
  send(Kind::kError, encode(error));
  finish();
}

bool Connection::wants_output() const {
  return !closed_ && !peer_gone_ && !finishing_ && output_.size() - sent_bytes_ < kMaxUnsentBytes;
}

void Connection::uncork() {
  corked_ = false;
  flush();
  update_interest();
}

void Connection::flush() {
  if (corked_) {
    return;
  }
  while (!closed_ && sent_bytes_ < output_.size()) {
    const ssize_t sent = ::send(socket_.get(), output_.data() + sent_bytes_,
                                output_.size() - sent_bytes_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) {
        continue;
      }
      break;  // EAGAIN waits for EPOLLOUT; any other error also arrives as a hang-up event
    }
    sent_bytes_ += static_cast<std::size_t>(sent);
  }
  if (sent_bytes_ == output_.size()) {
    output_ = {};
    sent_bytes_ = 0;
    if (finishing_) {
      close();
    }
  } else if (sent_bytes_ > kMaxUnsentBytes) {
    output_.erase(0, sent_bytes_);
    sent_bytes_ = 0;
  }
}

void Connection::finish() {
  finishing_ = true;
  flush();
  if (peer_gone_) {
    close();
  }
  update_interest();
}

void Connection::close() {
  if (!closed_) {
    closed_ = true;
    watch_.mute();  // the owner's sweep stops it
    owner_.on_closed(*this);
  }
}

void Connection::hold_input(bool hold) {
  if (held_ == hold || closed_) {
    return;
  }
  held_ = hold;
  if (!held_ && !parsing_ && !input_.empty()) {
    parse_input();
  }
  update_interest();
}

void Connection::update_interest() {
  if (closed_ || corked_) {
    return;
  }
  const bool reading = !held_ && !input_ended_ && !finishing_;
  if (peer_gone_ && !reading) {
    watch_.pause();  // the hang-up would be reported for ever
    return;
  }
  const bool writing = sent_bytes_ < output_.size();
  watch_.want((reading ? EPOLLIN : 0U) | (writing ? EPOLLOUT : 0U));
}

}  // namespace atl::guest
