// Takes the framing off a message body. Sans-IO: bytes in, body bytes out, no copy.
//
// The chunked decoder is a strict state machine of our own: Beast's needs each chunk header
// presented again whole, applies trailers to its framing state, and in builds with assertions
// aborts on a last chunk that arrives in two pieces. Extensions are checked for clean bytes and
// dropped; trailers go through the gate and are kept. Both share one byte budget per message.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "http/http1_gate.h"

namespace atl::http {

inline constexpr std::size_t kMaxChunkOverheadBytes = std::size_t{16} * 1024;
inline constexpr std::size_t kMaxChunkSizeDigits = 16;

class BodyDecoder {
 public:
  BodyDecoder() = default;
  explicit BodyDecoder(Framing framing);

  struct Step {
    std::size_t consumed = 0;
    std::string_view data;  // borrows from the input
  };
  // Consumes a prefix of `input`. Stops after one run of data; consumes everything otherwise.
  std::expected<Step, Refusal> feed(std::string_view input);
  // The peer closed. True when that is a legal end of this body.
  bool end_of_input();
  bool done() const { return state_ == State::kDone; }

  // How many of the next bytes are certainly data: they may be read straight into their place,
  // and are then reported with skip().
  std::uint64_t plain_bytes() const;
  void skip(std::uint64_t bytes);
  // Those of a chunked body, when it is done.
  const Headers& trailers() const { return trailers_; }

 private:
  enum class State : std::uint8_t {
    kDone,
    kLength,
    kUntilClose,
    kChunkSize,
    kChunkExtension,
    kChunkSizeLf,
    kChunkData,
    kChunkDataCr,
    kChunkDataLf,
    kTrailer,
    kTrailerLf,
  };
  std::optional<Refusal> control_byte(char c);
  std::optional<Refusal> size_byte(char c);
  std::optional<Refusal> trailer_byte(char c);
  std::optional<Refusal> spend_overhead();

  State state_ = State::kDone;
  std::uint64_t remaining_ = 0;
  std::size_t digits_ = 0;
  std::size_t overhead_bytes_ = 0;
  std::string trailer_line_;
  Headers trailers_;
};

}  // namespace atl::http
