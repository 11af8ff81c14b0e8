// Frames of HTTP/2 as bytes, for tests and fuzz seeds that speak it by hand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace atl::http::frames {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum Type : std::uint8_t {
  kData,
  kHeaders,
  kPriority,
  kReset,
  kSettings,
  kPush,
  kPing,
  kGoAway,
  kWindow,
  kContinuation
};
constexpr int kEndStream = 1;
constexpr int kEndHeaders = 4;

inline std::string number(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> shift & 0xff);
  }
  return bytes;
}

inline std::string frame(Type type, int flags, std::uint32_t stream, std::string_view payload) {
  return number(static_cast<std::uint32_t>(payload.size())).substr(1) + static_cast<char>(type) +
         static_cast<char>(flags) + number(stream) + std::string{payload};
}

inline std::string start() {
  return concat(kPreface, frame(kSettings, 0, 0, ""));
}

// A literal field without indexing; both texts shorter than 127.
inline std::string field(std::string_view name, std::string_view value) {
  return concat('\0', static_cast<char>(name.size()), name, static_cast<char>(value.size()), value);
}

inline std::string request_fields(std::string_view method, std::string_view path) {
  return field(":method", method) + field(":scheme", "http") + field(":path", path) +
         field(":authority", "x");
}

inline std::string get(std::uint32_t stream, std::string_view path = "/") {
  return frame(kHeaders, kEndStream | kEndHeaders, stream, request_fields("GET", path));
}

struct Frame {
  int type = 0;
  int flags = 0;
  std::uint32_t stream = 0;
  std::string payload;
  std::uint32_t code() const {  // of a reset, or a goaway
    const std::size_t at = type == kGoAway ? 4 : 0;
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4 && i < payload.size(); ++i) {
      value = value << 8 | static_cast<unsigned char>(payload[i]);
    }
    return value;
  }
};

inline std::vector<Frame> parse(std::string_view bytes) {
  std::vector<Frame> frames;
  const auto read = [&bytes](std::size_t at, std::size_t size) {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + size; ++i) {
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    }
    return value;
  };
  while (bytes.size() >= 9 && bytes.size() >= 9 + read(0, 3)) {
    const auto size = read(0, 3);
    frames.push_back({.type = bytes[3],
                      .flags = bytes[4],
                      .stream = read(5, 4),
                      .payload = std::string{bytes.substr(9, size)}});
    bytes.remove_prefix(9 + size);
  }
  return frames;
}

}  // namespace atl::http::frames
