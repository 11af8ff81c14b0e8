// One connection to a guest: frames in, frames out, nothing trusted.
//
// The guest may be under the control of whoever runs code in the sandbox. A frame that is too
// large, cut short, malformed or not the one expected ends the operation with an Error; a guest
// that stops talking runs into a deadline, and one that never stops leaves the loop its turns.
// Nothing it sends makes us allocate more than one frame. Descriptors it cannot send, as far as the
// kernel can refuse them, unless one is asked for; and whatever it sends is closed elsewhere.
// The payload of a received frame borrows from the channel's buffer until the next receive().
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/task.h"
#include "guest/wire.h"
#include "io/foreign_fd.h"
#include "io/stream.h"

namespace atl::control {

struct Frame {
  guest::Kind kind = guest::Kind::kError;
  std::string_view payload;
};

class GuestChannel {
 public:
  explicit GuestChannel(std::unique_ptr<io::Stream> stream) : stream_(std::move(stream)) {}
  // How much will be sent: a large upload gets a buffer that takes whole pieces of it, as far as
  // the system allows, because one that is half sent costs two trips through the loop.
  enum class Upload : std::uint8_t { kSmall, kLarge };
  static Task<std::unique_ptr<GuestChannel>> open(io::Reactor& reactor, std::string socket_path,
                                                  Upload upload = Upload::kSmall);
  GuestChannel(const GuestChannel&) = delete;
  GuestChannel& operator=(const GuestChannel&) = delete;
  ~GuestChannel();

  // Fails when the guest does not take the bytes in time.
  Task<> send(guest::Kind kind, std::string payload);
  // Sends without copying; the bytes must stay valid until it returns.
  Task<> send_bytes(guest::Kind kind, std::string_view bytes);

  // With a descriptor for the guest.
  Task<> send_passing(guest::Kind kind, std::string_view bytes, int descriptor);

  // The next frame, whose first byte must come within `timeout` (zero: whenever it comes). A
  // kError frame becomes the Error it carries.
  Task<Frame> receive(Duration timeout);
  // A frame that must be of this kind.
  Task<std::string_view> expect(guest::Kind kind, Duration timeout);
  // A whole frame is there already: receive() will not wait for the guest.
  bool ready() const;
  // From here on one descriptor may come with the frames: to be said before it is asked for. One
  // that nobody expects breaks the protocol.
  Result<> expect_descriptor();
  // None: none came. From here on none may come.
  io::ForeignFd take_descriptor();

 private:
  Task<> fill_to(std::size_t bytes);
  std::size_t available() const { return end_ - begin_; }
  std::string_view pending() const { return {buffer_.get() + begin_, available()}; }
  void grow_to(std::size_t bytes);
  Result<> keep_socket();

  int socket_ = -1;  // the stream's
  // The same once more where descriptors may come: what lies in it unread is closed with the last.
  io::ForeignFd socket_copy_;
  std::unique_ptr<io::Stream> stream_;
  std::unique_ptr<char[]> buffer_;  // not cleared: most of it is never used
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  unsigned frames_ = 0;
  bool expects_descriptor_ = false;
  io::ForeignFd descriptor_;
};

// The error for an answer that breaks the protocol.
std::unexpected<Error> guest_broke_protocol(std::string_view how);
// Decoded values that fail say "malformed ..."; to our caller it is the guest that is broken.
template <class T>
Result<T> from_guest(Result<T> decoded) {
  if (!decoded) {
    return guest_broke_protocol(decoded.error().message);
  }
  return decoded;
}
// What a guest claims went wrong, without a code that would speak for us: a sandbox must not be
// able to make us say "unauthenticated". (The decoder has already bounded and cleaned the text.)
Error sanitize_guest_error(Error error);

}  // namespace atl::control
