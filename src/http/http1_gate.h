// The strictness gate of HTTP/1.
//
// A parser decides whether bytes are HTTP; the gate decides whether they are HTTP that every
// other implementation on the path reads the same way. Request smuggling lives in the
// difference, so whatever could be read in two ways is refused: there is no lenient mode. The
// gate has two halves. HeadScanner is lexical and incremental: it finds the end of a head and
// lets only clean lines pass. gate_request and gate_response judge a parsed head, and are the only
// code that decides how the body is framed.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace atl::http {

// Why a message was refused: the status a server answers with, and a sentence for its sender.
// `reason` is a string literal: it never repeats hostile bytes.
struct Refusal {
  int status = 400;
  std::string_view reason;
};

struct HeadLimits {
  std::size_t bytes = std::size_t{64} * 1024;
  std::size_t count = 128;
};
inline constexpr std::size_t kMaxStartLineBytes = std::size_t{16} * 1024;

enum class Role : std::uint8_t { kRequest, kResponse };

struct Framing {
  enum class Kind : std::uint8_t { kNone, kLength, kChunked, kUntilClose };
  Kind kind = Kind::kNone;
  std::uint64_t length = 0;  // of kLength
};

struct Http1Head {
  std::string method;     // requests
  std::string target;     // requests
  int status = 0;         // responses
  int minor_version = 1;  // HTTP/1.x
  Headers headers;
  // Decided by the gate:
  Framing framing;
  bool keep_alive = false;
  bool expects_continue = false;
};

// Finds the empty line that ends a head. Between calls `text` may only grow at its end. Lets pass
// only lines that end in CRLF, hold no other control bytes than tabs, and do not start with blanks
// (no obs-fold). What it says never depends on how the bytes were cut into pieces.
class HeadScanner {
 public:
  HeadScanner(Role role, HeadLimits limits) : role_(role), limits_(limits) {}
  // The size of the head with its empty line, 0 when more bytes are needed.
  std::expected<std::size_t, Refusal> scan(std::string_view text);
  void reset();

 private:
  std::optional<Refusal> over_limit() const;
  std::optional<Refusal> end_line(std::string_view text);

  Role role_;
  HeadLimits limits_;
  std::size_t position_ = 0;
  std::size_t line_start_ = 0;
  std::size_t lines_ = 0;
};

// A server answers the methods it knows. A proxy passes on whatever is a method, except CONNECT and
// those that echo a request (TRACE and its kin), which are 405.
enum class Methods : std::uint8_t { kKnown, kAny };

// Judges a parsed head and fills in framing, keep_alive and expects_continue.
std::optional<Refusal> gate_request(Http1Head& head, Methods methods = Methods::kKnown);
// `bodiless`: the response answers a HEAD request.
std::optional<Refusal> gate_response(Http1Head& head, bool bodiless);
// One trailer line without its CRLF: its syntax, and that it is not a field that belongs in a head.
std::optional<Refusal> gate_trailer(std::string_view line);

// Whether a comma-separated list field names `token`, compared without case.
bool list_has_token(const Headers& headers, std::string_view field, std::string_view token);
bool is_token(std::string_view text);
bool is_field_value(std::string_view text);  // no control bytes but tabs

}  // namespace atl::http
