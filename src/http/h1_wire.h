// The thin shell around the HTTP/1 parser: one stream, one small input buffer, one parser.
//
// Used by both sides. The buffer holds what was read but not yet consumed (part of a head, the
// next pipelined message) and is there only while something is; large bodies are read straight into
// their reader's buffer. So the memory of a connection does not depend on what it carries, and one
// that waits for its next message has no buffer at all. Every read and write of a message
// has a deadline (stall_timeout; zero means none), and a wire that never has to wait yields to
// its neighbours on the loop now and then. One reader and one writer at a time.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/metrics.h"
#include "http/h1_parser.h"
#include "io/stream.h"

namespace atl::http {

class Http1Wire {
 public:
  static constexpr std::size_t kInputBytes = std::size_t{16} * 1024;
  // A slow peer must take (or send) one piece of this size within the stall timeout.
  static constexpr std::size_t kPieceBytes = std::size_t{256} * 1024;

  struct Options {
    Role role = Role::kRequest;  // of what is read
    HeadLimits limits;
    Methods methods = Methods::kKnown;
    Duration stall_timeout{};
    Counter* received_bytes = nullptr;
    Counter* sent_bytes = nullptr;
  };

  Http1Wire(io::Stream& stream, Options options);

  // Reads some bytes into the empty buffer; 0 when the peer has finished. No deadline of its own.
  Task<std::size_t> fill();
  // The same for an idle connection: there is no buffer until there is something to read.
  Task<std::size_t> fill_when_readable();
  // Whether the input, at the start of a connection, begins with `mark`. Reads only as long as
  // that is undecided, and consumes nothing. No deadline of its own.
  Task<bool> begins_with(std::string_view mark);
  // True with a head; false when the peer finished before the first byte. No deadline of its own.
  Task<bool> read_head();
  // The next bytes of the body, 0 at its end.
  Task<std::size_t> read_body(std::span<char> buffer);
  // Reads and drops the rest of the body; false when it is longer than `max_bytes`.
  Task<bool> discard_body(std::size_t max_bytes);
  Task<> write(std::string_view first, std::string_view second = {});

  // Gives away what was read but not consumed: after an upgrade it belongs to another protocol.
  std::string take_input();
  Http1Parser& parser() { return parser_; }
  bool has_input() const { return begin_ < end_; }
  // Set when the peer broke the rules; the connection must end.
  const std::optional<Refusal>& refusal() const { return refusal_; }

 private:
  std::string_view input() const {
    return has_input() ? std::string_view{buffer_->data() + begin_, end_ - begin_}
                       : std::string_view{};
  }
  std::span<char> buffer();
  Task<std::size_t> read_directly(std::span<char> buffer);
  Task<std::size_t> read_stream(std::span<char> buffer);
  Task<std::size_t> read_and_count(std::span<char> buffer, bool others_first);
  Task<> write_pieces(std::string_view first, std::string_view second, bool others_first);
  std::unexpected<Error> refuse(Refusal refusal);
  // Every so often it is the turn of the other tasks of the loop.
  bool is_others_turn();

  io::Stream& stream_;
  Options options_;
  Http1Parser parser_;
  std::optional<Refusal> refusal_;
  std::unique_ptr<std::array<char, kInputBytes>> buffer_;  // null: nothing was read yet
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  unsigned operations_ = 0;
};

}  // namespace atl::http
