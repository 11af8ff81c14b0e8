#include "guest/file_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "guest/limits.h"

namespace atl::guest {

Result<> FileChannel::send(Kind kind, std::string_view payload) {
  output_ += encode_frame(kind, payload);
  return output_.size() >= kMaxPieceBytes ? flush() : Result<>{};
}

Result<> FileChannel::flush() {
  std::string_view rest = output_;
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail(Code::kCancelled, "the client is gone", "disconnected");
    }
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  output_.clear();
  return {};
}

Result<> FileChannel::fill(std::size_t wanted_bytes) {
  while (input_.size() - consumed_bytes_ < wanted_bytes) {
    char buffer[32 * 1024];
    const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return fail(Code::kCancelled, "the client is gone", "disconnected");
    }
    input_.erase(0, consumed_bytes_);
    consumed_bytes_ = 0;
    input_.append(buffer, static_cast<std::size_t>(got));
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
