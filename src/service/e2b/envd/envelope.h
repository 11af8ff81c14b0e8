// The envelopes of Connect's streams: one byte of flags, four of length (big-endian), the message.
//
// Sans-IO. An end-of-stream envelope holds JSON whatever the codec. Compressed messages are
// refused: we never say that we could read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::service::e2b::envd {

inline constexpr std::size_t kEnvelopeHeadBytes = 5;
// Of one message of a client: input for a process comes in one piece.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20;
inline constexpr std::uint8_t kCompressedFlag = 0x01;
inline constexpr std::uint8_t kEndFlag = 0x02;

std::string encode_envelope(std::uint8_t flags, std::string_view message);

struct Envelope {
  std::uint8_t flags = 0;
  std::string message;
};

// Takes the bytes of a stream as they come and gives the envelopes in them.
class EnvelopeDecoder {
 public:
  void feed(std::string_view bytes) { buffer_ += bytes; }
  // Nothing: more bytes are needed. An error is for good.
  Result<std::optional<Envelope>> next();
  // In the middle of an envelope.
  bool partial() const { return !buffer_.empty(); }

 private:
  std::string buffer_;
};

}  // namespace atl::service::e2b::envd
