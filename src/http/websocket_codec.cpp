#include "http/websocket_codec.h"

#include <openssl/sha.h>

#include "base/random.h"
#include "base/strings.h"

namespace atl::http {
namespace {

constexpr std::uint8_t kContinuation = 0;
constexpr std::uint8_t kText = 1;
constexpr std::uint8_t kBinary = 2;
constexpr std::uint8_t kClose = 8;
constexpr std::uint8_t kPing = 9;
constexpr std::uint8_t kPong = 10;
constexpr std::size_t kMaxControlBytes = 125;
constexpr std::string_view kAcceptSuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

constexpr std::uint16_t kProtocolError = 1002;
constexpr std::uint16_t kBadText = 1007;
constexpr std::uint16_t kTooBig = 1009;

void apply_mask(std::string& payload, const char (&mask)[4]) {
  for (std::size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<char>(payload[i] ^ mask[i & 3]);
  }
}

bool is_legal_close_code(std::uint16_t code) {
  return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
         (code >= 3000 && code <= 4999);
}

std::uint8_t opcode_of(WebSocketMessage::Kind kind) {
  switch (kind) {
    case WebSocketMessage::Kind::kText:
      return kText;
    case WebSocketMessage::Kind::kBinary:
      return kBinary;
    case WebSocketMessage::Kind::kPing:
      return kPing;
    case WebSocketMessage::Kind::kPong:
      return kPong;
    case WebSocketMessage::Kind::kClose:
      return kClose;
  }
  return kClose;
}

}  // namespace

std::unexpected<Error> WebSocketDecoder::broken(std::uint16_t code, std::string message) {
  close_code_ = code;
  return fail(Code::kInvalidArgument, std::move(message), "websocket");
}

Result<std::optional<WebSocketDecoder::FrameHead>> WebSocketDecoder::parse_head() {
  const auto byte = [this](std::size_t i) { return static_cast<unsigned char>(input_[i]); };
  if (input_.size() < 2) {
    return std::nullopt;
  }
  FrameHead head;
  head.final = (byte(0) & 0x80) != 0;
  head.opcode = byte(0) & 0x0f;
  head.masked = (byte(1) & 0x80) != 0;
  if ((byte(0) & 0x70) != 0) {
    return broken(kProtocolError, "reserved bits are set");
  }
  const std::size_t short_length = byte(1) & 0x7f;
  const std::size_t extra = short_length == 126 ? 2 : short_length == 127 ? 8 : 0;
  head.bytes = 2 + extra + (head.masked ? 4 : 0);
  if (input_.size() < head.bytes) {
    return std::nullopt;
  }
  head.length = extra == 0 ? short_length : 0;
  for (std::size_t i = 0; i < extra; ++i) {
    head.length = head.length << 8 | byte(2 + i);
  }
  if ((extra == 2 && head.length < 126) || (extra == 8 && head.length <= 0xffff)) {
    return broken(kProtocolError, "the length is not in its shortest form");
  }
  for (std::size_t i = 0; head.masked && i < 4; ++i) {
    head.mask[i] = input_[2 + extra + i];
  }
  return head;
}

Result<> WebSocketDecoder::check_head(const FrameHead& head) {
  if (head.masked != (role_ == WebSocketRole::kServer)) {
    return broken(kProtocolError, "frames of clients are masked, frames of servers are not");
  }
  if (head.opcode >= kClose) {
    if (head.opcode > kPong) {
      return broken(kProtocolError, "unknown opcode");
    }
    if (!head.final || head.length > kMaxControlBytes) {
      return broken(kProtocolError, "control frames are whole and short");
    }
    return {};
  }
  if (head.opcode > kBinary) {
    return broken(kProtocolError, "unknown opcode");
  }
  if ((head.opcode == kContinuation) != message_kind_.has_value()) {
    return broken(kProtocolError, "continuation frames continue a message, others begin one");
  }
  if (head.length > max_message_bytes_ - message_.size()) {
    return broken(kTooBig, concat("a message has at most ", max_message_bytes_, " bytes"));
  }
  return {};
}

Result<std::optional<WebSocketMessage>> WebSocketDecoder::take_control(const FrameHead& head,
                                                                       std::string payload) {
  using Kind = WebSocketMessage::Kind;
  WebSocketMessage message;
  if (head.opcode != kClose) {
    message.kind = head.opcode == kPing ? Kind::kPing : Kind::kPong;
    message.payload = std::move(payload);
    return message;
  }
  message.kind = Kind::kClose;
  if (payload.size() == 1) {
    return broken(kProtocolError, "a close code has two bytes");
  }
  if (payload.size() >= 2) {
    message.close_code = static_cast<std::uint16_t>(static_cast<unsigned char>(payload[0]) << 8 |
                                                    static_cast<unsigned char>(payload[1]));
    message.payload = payload.substr(2);
    if (!is_legal_close_code(message.close_code)) {
      return broken(kProtocolError, "illegal close code");
    }
    if (!is_utf8(message.payload)) {
      return broken(kBadText, "the close reason is not UTF-8");
    }
  }
  return message;
}

Result<std::optional<WebSocketMessage>> WebSocketDecoder::next() {
  for (;;) {
    TRY(const auto parsed, parse_head());
    if (!parsed) {
      return std::nullopt;
    }
    const FrameHead& head = *parsed;
    TRY_DO(check_head(head));
    if (input_.size() - head.bytes < head.length) {
      return std::nullopt;
    }
    std::string payload = input_.substr(head.bytes, head.length);
    input_.erase(0, head.bytes + head.length);
    if (head.masked) {
      apply_mask(payload, head.mask);
    }
    if (head.opcode >= kClose) {
      return take_control(head, std::move(payload));
    }
    if (head.opcode != kContinuation) {
      message_kind_ =
          head.opcode == kText ? WebSocketMessage::Kind::kText : WebSocketMessage::Kind::kBinary;
    }
    message_ += payload;
    if (!head.final) {
      continue;
    }
    WebSocketMessage message{.kind = *message_kind_, .payload = std::exchange(message_, {})};
    message_kind_.reset();
    if (message.kind == WebSocketMessage::Kind::kText && !is_utf8(message.payload)) {
      return broken(kBadText, "a text message is not UTF-8");
    }
    return message;
  }
}

std::string encode_websocket(WebSocketRole role, WebSocketMessage::Kind kind,
                             std::string_view payload) {
  const bool masked = role == WebSocketRole::kClient;
  const std::uint64_t size = payload.size();
  std::string frame;
  frame.reserve(size + 14);
  frame += static_cast<char>(0x80 | opcode_of(kind));
  const auto mask_bit = static_cast<unsigned char>(masked ? 0x80 : 0);
  const std::size_t extra = size < 126 ? 0 : size <= 0xffff ? 2 : 8;
  const auto short_length = extra == 0 ? size : extra == 2 ? 126 : 127;
  frame += static_cast<char>(mask_bit | short_length);
  for (std::size_t i = extra; i-- > 0;) {
    frame += static_cast<char>(size >> (8 * i) & 0xff);
  }
  if (!masked) {
    frame += payload;
    return frame;
  }
  const std::string key = random_bytes(4);
  const char mask[4] = {key[0], key[1], key[2], key[3]};
  std::string hidden{payload};
  apply_mask(hidden, mask);
  return frame + key + hidden;
}

std::string encode_websocket_close(WebSocketRole role, std::uint16_t code,
                                   std::string_view reason) {
  std::string payload;
  payload += static_cast<char>(code >> 8);
  payload += static_cast<char>(code & 0xff);
  payload += reason.substr(0, kMaxControlBytes - 2);
  return encode_websocket(role, WebSocketMessage::Kind::kClose, payload);
}

std::optional<std::string> websocket_accept(std::string_view key) {
  const auto decoded = base64_decode(key);
  if (!decoded || decoded->size() != 16) {
    return std::nullopt;
  }
  const std::string input = concat(key, kAcceptSuffix);
  std::string digest(SHA_DIGEST_LENGTH, '\0');
  ::SHA1(reinterpret_cast<const unsigned char*>(input.data()), input.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return base64_encode(digest);
}

}  // namespace atl::http
