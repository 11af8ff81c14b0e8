// Frames over a blocking socket, for the worker that serves one file request.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "guest/wire.h"

namespace atl::guest {

class FileChannel {
 public:
  // `early_input` is what the agent had already read behind the request.
  FileChannel(Fd socket, std::string_view early_input)
      : socket_(std::move(socket)), input_(early_input), end_bytes_(early_input.size()) {}

  // Small frames are gathered; flush() sends the rest.
  Result<> send(Kind kind, std::string_view payload = {});
  Result<> flush();
  // At once, with a descriptor for the other side. Where that cannot be (too many are under way, or
  // it takes none) nothing was sent, and the reason is kNotPassed.
  Result<> send_with_descriptor(Kind kind, std::string_view payload, int descriptor);

  static constexpr std::string_view kNotPassed = "not_passed";

  struct Frame {
    Kind kind = Kind::kError;
    std::string_view payload;  // valid until the next receive()
  };
  // Fails with kCancelled when the client is gone.
  Result<Frame> receive();

  // Many bytes will be sent: a larger buffer, as far as the system allows, wakes both sides less
  // often.
  void expect_much();

  // For poll(2): a hang-up means that the client is gone.
  int socket() const { return socket_.get(); }

  // Reads and drops what a client goes on sending to a request that already failed, so that it
  // comes to read the answer. Bounded.
  void discard_upload();

 private:
  Result<> send_all(std::string_view bytes);
  Result<> fill(std::size_t wanted_bytes);

  Fd socket_;
  std::string input_;  // what is unread lies from consumed_bytes_ to end_bytes_
  std::size_t consumed_bytes_ = 0;
  std::size_t end_bytes_ = 0;
  bool upload_ended_ = false;  // the client's kEnd was received
  std::string output_;
};

}  // namespace atl::guest
