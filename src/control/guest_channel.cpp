#include "control/guest_channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cstring>

#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "io/fd_passing.h"

namespace atl::control {
namespace {

// Most operations are done with a few hundred bytes; a stream of output or of a file fills this at
// once and gets a buffer for whole pieces of it, with their headers.
constexpr std::size_t kFirstBufferBytes = std::size_t{4} * 1024;
constexpr std::size_t kStreamBufferBytes = std::size_t{68} * 1024;
constexpr unsigned kFramesPerTurn = 256;
constexpr int kUploadBufferBytes = 512 * 1024;

Error describe_loss(Error error) {
  if (error.code == Code::kCancelled || error.reason == "guest_protocol" ||
      error.reason == io::kDescriptorLost) {
    return error;
  }
  if (error.code == Code::kDeadlineExceeded) {
    return Error{Code::kDeadlineExceeded, "the sandbox's agent did not answer in time",
                 "guest_timeout"};
  }
  return Error{Code::kUnavailable,
               concat("the connection to the sandbox's agent was lost: ", error.message),
               "guest_lost"};
}

}  // namespace

std::unexpected<Error> guest_broke_protocol(std::string_view how) {
  return fail(Code::kDataLoss, concat("the sandbox's agent sent an invalid answer: ", how),
              "guest_protocol");
}

Error sanitize_guest_error(Error error) {
  switch (error.code) {
    case Code::kCancelled:
    case Code::kUnauthenticated:
    case Code::kUnimplemented:
      error.code = Code::kUnknown;
      break;
    default:
      break;
  }
  return error;
}

Task<std::unique_ptr<GuestChannel>> GuestChannel::open(io::Reactor& reactor,
                                                       std::string socket_path, Upload upload) {
  auto stream = co_await with_deadline(kGuestConnectTimeout,
                                       io::connect_unix(reactor, std::move(socket_path)));
  if (!stream) {
    co_return fail(describe_loss(std::move(stream).error()));
  }
  if (upload == Upload::kLarge) {
    const int bytes = kUploadBufferBytes;
    ::setsockopt((*stream)->fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
  const int socket = (*stream)->fd();
  auto channel = std::make_unique<GuestChannel>(std::unique_ptr<io::Stream>{*std::move(stream)});
  channel->socket_ = socket;
  if (io::may_descriptors_come(socket)) {  // they were refused from before it was connected
    CO_TRY_DO(channel->keep_socket());
  }
  co_return std::move(channel);
}

GuestChannel::~GuestChannel() {
  if (socket_copy_) {  // the guest need not wait until it is closed
    ::shutdown(socket_, SHUT_RDWR);
  }
}

Result<> GuestChannel::keep_socket() {
  if (!socket_copy_ && socket_ >= 0) {
    Fd copy{::fcntl(socket_, F_DUPFD_CLOEXEC, 0)};
    if (!copy) {
      return fail(Code::kResourceExhausted, "no descriptor is left",
                  std::string{io::kDescriptorLost});
    }
    socket_copy_ = io::ForeignFd{std::move(copy)};
  }
  return {};
}

Result<> GuestChannel::expect_descriptor() {
  TRY_DO(keep_socket());
  if (socket_copy_) {
    (void)io::let_descriptors_come(socket_, true);
  }
  expects_descriptor_ = true;
  return {};
}

io::ForeignFd GuestChannel::take_descriptor() {
  expects_descriptor_ = false;
  if (socket_copy_) {
    (void)io::let_descriptors_come(socket_, false);
  }
  return std::move(descriptor_);
}

Task<> GuestChannel::send(guest::Kind kind, std::string payload) {
  co_return co_await send_bytes(kind, payload);
}

Task<> GuestChannel::send_bytes(guest::Kind kind, std::string_view bytes) {
  if (bytes.size() > guest::kMaxPayloadBytes) {
    co_return fail(Code::kInvalidArgument,
                   concat("the request takes ", bytes.size(), " bytes, at most ",
                          guest::kMaxPayloadBytes, " are possible"),
                   "request_too_large");
  }
  const auto size = static_cast<std::uint32_t>(bytes.size());
  const char header[guest::kFrameHeaderBytes] = {
      static_cast<char>(size), static_cast<char>(size >> 8), static_cast<char>(size >> 16),
      static_cast<char>(size >> 24), static_cast<char>(kind)};
  auto sent = co_await with_deadline(
      kGuestStallTimeout, stream_->write(std::string_view{header, sizeof header}, bytes));
  if (!sent) {
    co_return fail(describe_loss(std::move(sent).error()));
  }
  co_return ok();
}

Task<> GuestChannel::send_passing(guest::Kind kind, std::string_view bytes, int descriptor) {
  if (bytes.size() > guest::kMaxPayloadBytes) {
    co_return fail(Code::kInvalidArgument, "the request is too large", "request_too_large");
  }
  const std::string frame = guest::encode_frame(kind, bytes);
  auto sent = co_await with_deadline(kGuestStallTimeout, stream_->write_passing(frame, descriptor));
  if (!sent) {
    co_return fail(describe_loss(std::move(sent).error()));
  }
  co_return ok();
}

// REQUIRES: nothing outside borrows from the buffer.
void GuestChannel::grow_to(std::size_t bytes) {
  std::unique_ptr<char[]> larger{new char[bytes]};
  if (available() > 0) {
    std::memcpy(larger.get(), buffer_.get() + begin_, available());
  }
  end_ = available();
  begin_ = 0;
  capacity_ = bytes;
  buffer_ = std::move(larger);
}

// Reads until `bytes` are pending. Keeps what is pending at the front when it must move it.
Task<> GuestChannel::fill_to(std::size_t bytes) {
  if (begin_ + bytes > capacity_) {
    const std::size_t first = capacity_ == 0 ? kFirstBufferBytes : kStreamBufferBytes;
    if (bytes > capacity_) {
      grow_to(std::max(bytes, first));
    } else {
      std::memmove(buffer_.get(), buffer_.get() + begin_, available());
      end_ -= begin_;
      begin_ = 0;
    }
  }
  while (available() < bytes) {
    const std::span room{buffer_.get() + end_, capacity_ - end_};
    auto reading =
        socket_copy_ ? stream_->read_passing(room, descriptor_.plain()) : stream_->read(room);
    CO_TRY(const auto got, co_await std::move(reading));
    if (descriptor_ && !expects_descriptor_) {
      descriptor_.reset();
      co_return guest_broke_protocol("a descriptor that nobody asked for");
    }
    if (got == 0) {
      co_return fail(Code::kUnavailable, "it closed the connection in the middle", "closed");
    }
    end_ += got;
  }
  if (end_ == capacity_ && capacity_ < kStreamBufferBytes) {
    grow_to(kStreamBufferBytes);
  }
  co_return ok();
}

bool GuestChannel::ready() const {
  if (available() < guest::kFrameHeaderBytes) {
    return false;
  }
  const auto header = guest::decode_header(pending().substr(0, guest::kFrameHeaderBytes));
  return !header || available() >= guest::kFrameHeaderBytes + header->payload_bytes;
}

Task<Frame> GuestChannel::receive(Duration timeout) {
  if (++frames_ % kFramesPerTurn == 0) {
    // Frames that are there already never make us wait, and without end nobody else would run.
    CO_TRY_DO(co_await sleep_for(Duration::zero()));
  }
  if (begin_ == end_) {
    begin_ = end_ = 0;
    Result<> first;
    if (timeout == Duration::zero()) {
      first = co_await fill_to(1);
    } else {
      first = co_await with_deadline(timeout, fill_to(1));
    }
    if (!first) {
      co_return fail(describe_loss(std::move(first).error()));
    }
  }
  if (available() < guest::kFrameHeaderBytes) {
    auto filled = co_await with_deadline(kGuestStallTimeout, fill_to(guest::kFrameHeaderBytes));
    if (!filled) {
      co_return fail(describe_loss(std::move(filled).error()));
    }
  }
  const auto header = guest::decode_header(pending().substr(0, guest::kFrameHeaderBytes));
  if (!header) {
    co_return guest_broke_protocol(header.error().message);
  }
  const std::size_t frame_bytes = guest::kFrameHeaderBytes + header->payload_bytes;
  if (available() < frame_bytes) {
    auto filled = co_await with_deadline(kGuestStallTimeout, fill_to(frame_bytes));
    if (!filled) {
      co_return fail(describe_loss(std::move(filled).error()));
    }
  }
  const auto payload = pending().substr(guest::kFrameHeaderBytes, header->payload_bytes);
  begin_ += frame_bytes;
  if (header->kind == guest::Kind::kError) {
    co_return fail(sanitize_guest_error(guest::decode_error(payload)));
  }
  co_return Frame{header->kind, payload};
}

Task<std::string_view> GuestChannel::expect(guest::Kind kind, Duration timeout) {
  CO_TRY(const Frame frame, co_await receive(timeout));
  if (frame.kind != kind) {
    co_return guest_broke_protocol(concat("kind ", static_cast<unsigned>(frame.kind),
                                          " where kind ", static_cast<unsigned>(kind),
                                          " was expected"));
  }
  co_return frame.payload;
}

}  // namespace atl::control
