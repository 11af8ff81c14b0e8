#include "service/e2b/envd/envelope.h"

#include "base/strings.h"

namespace atl::service::e2b::envd {

std::string encode_envelope(std::uint8_t flags, std::string_view message) {
  std::string out;
  out.reserve(kEnvelopeHeadBytes + message.size());
  out += static_cast<char>(flags);
  const auto size = static_cast<std::uint32_t>(message.size());
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    out += static_cast<char>((size >> shift) & 0xFFU);
  }
  out += message;
  return out;
}

Result<std::optional<Envelope>> EnvelopeDecoder::next() {
  if (buffer_.size() < kEnvelopeHeadBytes) {
    return std::optional<Envelope>{};
  }
  const auto flags = static_cast<std::uint8_t>(buffer_[0]);
  std::uint32_t size = 0;
  for (std::size_t i = 1; i < kEnvelopeHeadBytes; ++i) {
    size = (size << 8U) | static_cast<std::uint8_t>(buffer_[i]);
  }
  if ((flags & kCompressedFlag) != 0) {
    return fail(Code::kUnimplemented, "compressed messages are not accepted");
  }
  if (size > kMaxMessageBytes) {
    return fail(Code::kResourceExhausted,
                concat("a message of ", size, " bytes is larger than ", kMaxMessageBytes));
  }
  if (buffer_.size() < kEnvelopeHeadBytes + size) {
    return std::optional<Envelope>{};
  }
  Envelope envelope{flags, buffer_.substr(kEnvelopeHeadBytes, size)};
  buffer_.erase(0, kEnvelopeHeadBytes + size);
  return std::optional{std::move(envelope)};
}

}  // namespace atl::service::e2b::envd
