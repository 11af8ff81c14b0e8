#include "guest/file_channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr std::size_t kGatheredBytes =
    std::size_t{16} * 1024;  // smaller payloads are copied together
constexpr std::size_t kFirstInputBytes = std::size_t{32} * 1024;

}  // namespace

Result<> FileChannel::send(Kind kind, std::string_view payload) {
  if (payload.size() < kGatheredBytes) {
    output_ += encode_frame(kind, payload);
    return output_.size() >= kMaxPieceBytes ? flush() : Result<>{};
  }
  output_ += encode_header(kind, payload.size());
  return send_all(payload);
}

void FileChannel::expect_much() {
  constexpr int kBytes = 2 * kMaxFilePieceBytes;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &kBytes, sizeof kBytes);
}

Result<> FileChannel::flush() {
  return send_all({});
}

Result<> FileChannel::send_with_descriptor(Kind kind, std::string_view payload, int descriptor) {
  TRY_DO(flush());
  // The descriptor travels with the first bytes, whose number is small: they go together.
  const std::string header = encode_header(kind, payload.size());
  iovec part{const_cast<char*>(header.data()), header.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
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
  ssize_t sent = 0;
  while ((sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  if (sent < 0 && errno != EPIPE && errno != ECONNRESET) {
    return fail(Code::kUnavailable, "the descriptor cannot be passed", std::string{kNotPassed});
  }
  if (sent != static_cast<ssize_t>(header.size())) {
    return fail(Code::kCancelled, "the client is gone", "disconnected");
  }
  return send_all(payload);
}

// What was gathered, and then these bytes, which are not copied.
Result<> FileChannel::send_all(std::string_view bytes) {
  std::string_view first = output_;
  while (!first.empty() || !bytes.empty()) {
    iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                      {const_cast<char*>(bytes.data()), bytes.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail(Code::kCancelled, "the client is gone", "disconnected");
    }
    const auto of_first = std::min(static_cast<std::size_t>(sent), first.size());
    first.remove_prefix(of_first);
    bytes.remove_prefix(static_cast<std::size_t>(sent) - of_first);
  }
  output_.clear();
  return {};
}

// Reads until that many bytes are there, straight to where they stay.
Result<> FileChannel::fill(std::size_t wanted_bytes) {
  if (consumed_bytes_ + wanted_bytes > input_.size()) {
    std::memmove(input_.data(), input_.data() + consumed_bytes_, end_bytes_ - consumed_bytes_);
    end_bytes_ -= consumed_bytes_;
    consumed_bytes_ = 0;
    input_.resize(std::max({input_.size(), wanted_bytes, kFirstInputBytes}));
  }
  while (end_bytes_ - consumed_bytes_ < wanted_bytes) {
    const ssize_t got =
        ::recv(socket_.get(), input_.data() + end_bytes_, input_.size() - end_bytes_, 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return fail(Code::kCancelled, "the client is gone", "disconnected");
    }
    end_bytes_ += static_cast<std::size_t>(got);
  }
  return {};
}

Result<FileChannel::Frame> FileChannel::receive() {
  TRY_DO(fill(kFrameHeaderBytes));
  TRY(const auto header,
      decode_header(std::string_view{input_}.substr(consumed_bytes_, kFrameHeaderBytes)));
  TRY_DO(fill(kFrameHeaderBytes + header.payload_bytes));
  const std::string_view payload =
      std::string_view{input_}.substr(consumed_bytes_ + kFrameHeaderBytes, header.payload_bytes);
  consumed_bytes_ += kFrameHeaderBytes + header.payload_bytes;
  upload_ended_ = upload_ended_ || header.kind == Kind::kEnd;
  return Frame{header.kind, payload};
}

void FileChannel::discard_upload() {
  std::size_t dropped_bytes = 0;
  while (!upload_ended_ && dropped_bytes < kMaxRefusedUploadBytes) {
    const auto frame = receive();
    if (!frame) {
      return;
    }
    dropped_bytes += frame->payload.size() + kFrameHeaderBytes;
  }
}

}  // namespace atl::guest
