// multipart/form-data as it comes: parts begin, bring bytes and end; nothing is kept but what might
// be the beginning of a boundary.
//
// Sans-IO. feed() bytes, then take events until there is none; the bytes of a kData event are valid
// until the next call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::service::e2b::envd {

inline constexpr std::size_t kMaxPartHeadBytes = std::size_t{16} * 1024;
inline constexpr std::size_t kMaxBoundaryBytes = 70;

// The boundary that a Content-Type names; nothing when it is no multipart/form-data.
std::optional<std::string> multipart_boundary(std::string_view content_type);

class MultipartDecoder {
 public:
  explicit MultipartDecoder(const std::string& boundary)
      : delimiter_("\r\n--" + boundary), buffer_("\r\n") {}

  struct Event {
    enum class Kind : std::uint8_t { kPart, kData, kPartEnd, kEnd };
    Kind kind = Kind::kEnd;
    std::string name;       // of a part
    std::string file_name;  // of a part; empty: it is no file
    std::string_view bytes;
  };
  void feed(std::string_view bytes);
  // Nothing: more bytes are needed. An error is for good.
  Result<std::optional<Event>> next();
  bool ended() const { return state_ == State::kEnded; }
  std::size_t kept_bytes() const { return pending().size(); }

 private:
  enum class State : std::uint8_t { kPreamble, kBoundary, kHead, kContent, kEnded };
  std::optional<Event> next_content();
  Result<std::optional<Event>> next_head();
  std::string_view pending() const { return std::string_view{buffer_}.substr(at_); }

  const std::string delimiter_;
  std::string buffer_;
  std::size_t at_ = 0;
  State state_ = State::kPreamble;
};

}  // namespace atl::service::e2b::envd
