#include "http/http1_gate.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace atl::http {
namespace {

constexpr std::array<std::string_view, 7> kMethods{"GET",   "HEAD",   "POST",   "PUT",
                                                   "PATCH", "DELETE", "OPTIONS"};

// Fields that steer framing, routing or authority: in a trailer they would arrive after the
// decision they steer has been made.
constexpr std::array<std::string_view, 21> kForbiddenInTrailer{"transfer-encoding",
                                                               "content-length",
                                                               "content-encoding",
                                                               "content-type",
                                                               "content-range",
                                                               "trailer",
                                                               "host",
                                                               "connection",
                                                               "keep-alive",
                                                               "te",
                                                               "upgrade",
                                                               "expect",
                                                               "authorization",
                                                               "cookie",
                                                               "set-cookie",
                                                               "cache-control",
                                                               "range",
                                                               "if-match",
                                                               "x-api-key",
                                                               "proxy-authorization",
                                                               "x-forwarded-for"};

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_alnum(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

constexpr std::array<bool, 256> kTokenChars = [] {
  std::array<bool, 256> table{};
  for (unsigned c = 0; c < table.size(); ++c) {
    table[c] = is_alnum(static_cast<char>(c));
  }
  for (const char c : std::string_view{"!#$%&'*+-.^_`|~"}) {
    table[static_cast<unsigned char>(c)] = true;
  }
  return table;
}();

bool is_token_char(char c) {
  return kTokenChars[static_cast<unsigned char>(c)];
}

std::size_t skip_plain(std::string_view text, std::size_t from, std::size_t limit) {
  const std::size_t end = std::min(text.size(), limit);
  while (from < end && (!is_control(text[from]) || text[from] == '\t')) {
    ++from;
  }
  return from;
}

bool is_port(std::string_view text) {
  const auto port = parse_u64(text);
  return text.size() <= 5 && std::ranges::all_of(text, is_digit) && port && *port <= 65535;
}

// A name or address with an optional port. No userinfo, no path, no list.
bool is_host(std::string_view host) {
  std::size_t end = 0;
  if (host.starts_with('[')) {
    end = host.find(']');
    if (end == std::string_view::npos || end < 3) {
      return false;
    }
    for (const char c : host.substr(1, end - 1)) {
      if (!is_hex_digit(c) && c != ':' && c != '.') {
        return false;
      }
    }
    ++end;
  } else {
    while (end < host.size() &&
           (is_alnum(host[end]) || host[end] == '.' || host[end] == '-' || host[end] == '_')) {
      ++end;
    }
    if (end == 0) {
      return false;
    }
  }
  return end == host.size() || (host[end] == ':' && is_port(host.substr(end + 1)));
}

// Origin form only. Bytes outside RFC 3986 that browsers send anyway ({ } | ^ `) are let through;
// those that other software treats as something else are not.
bool is_origin_form(std::string_view target) {
  if (!target.starts_with('/')) {
    return false;
  }
  return std::ranges::all_of(target, [](char c) {
    return c > 0x20 && c < 0x7F && c != '#' && c != '\\' && c != '"' && c != '<' && c != '>';
  });
}

// The one place that reads Content-Length and Transfer-Encoding.
std::optional<Refusal> decide_framing(Http1Head& head, Framing without) {
  const auto encodings = head.headers.count("transfer-encoding");
  const auto lengths = head.headers.count("content-length");
  head.framing = without;
  if (encodings > 0) {
    if (lengths > 0) {
      return Refusal{400, "Content-Length and Transfer-Encoding exclude each other"};
    }
    if (encodings > 1) {
      return Refusal{400, "more than one Transfer-Encoding field"};
    }
    if (head.minor_version < 1) {
      return Refusal{400, "HTTP/1.0 has no Transfer-Encoding"};
    }
    if (!equals_ignore_case(head.headers.get("transfer-encoding"), "chunked")) {
      return Refusal{501, "the only transfer coding understood is chunked"};
    }
    head.framing = {Framing::Kind::kChunked, 0};
    return std::nullopt;
  }
  if (lengths > 1) {
    return Refusal{400, "more than one Content-Length field"};
  }
  if (lengths == 1) {
    const auto text = head.headers.get("content-length");
    const auto length = parse_u64(text);
    if (text.empty() || !std::ranges::all_of(text, is_digit) || !length ||
        *length > static_cast<std::uint64_t>(INT64_MAX)) {
      return Refusal{400, "Content-Length is not one decimal number"};
    }
    head.framing = {*length > 0 ? Framing::Kind::kLength : Framing::Kind::kNone, *length};
  }
  return std::nullopt;
}

std::optional<Refusal> check_fields(const Headers& headers) {
  for (const auto& [name, value] : headers.lines()) {
    if (!is_token(name)) {
      return Refusal{400, "a field name is not a token"};
    }
    if (!is_field_value(value)) {
      return Refusal{400, "a field value has control characters"};
    }
  }
  return std::nullopt;
}

std::optional<Refusal> check_method(std::string_view method, Methods methods) {
  if (std::ranges::find(kMethods, method) != kMethods.end()) {
    return std::nullopt;
  }
  if (methods == Methods::kKnown) {
    return Refusal{501, "the method is not known"};
  }
  constexpr std::array<std::string_view, 4> kRefused{"CONNECT", "TRACE", "TRACK", "DEBUG"};
  const auto is_refused = [&](std::string_view one) { return equals_ignore_case(one, method); };
  if (!is_token(method) || method.size() > 32) {
    return Refusal{400, "the method is malformed"};
  }
  if (std::ranges::any_of(kRefused, is_refused)) {
    return Refusal{405, "the method is not passed on"};
  }
  return std::nullopt;
}

std::optional<Refusal> check_host(const Http1Head& head) {
  const auto hosts = head.headers.count("host");
  if (hosts == 0) {
    return head.minor_version < 1 ? std::nullopt
                                  : std::optional{Refusal{400, "the Host field is missing"}};
  }
  if (hosts > 1) {
    return Refusal{400, "more than one Host field"};
  }
  if (!is_host(head.headers.get("host"))) {
    return Refusal{400, "the Host field is not a host with an optional port"};
  }
  return std::nullopt;
}

}  // namespace

bool list_has_token(const Headers& headers, std::string_view field, std::string_view token) {
  for (const auto& [name, value] : headers.lines()) {
    if (equals_ignore_case(name, field)) {
      for (const auto piece : split(value, ',')) {
        if (equals_ignore_case(trim(piece), token)) {
          return true;
        }
      }
    }
  }
  return false;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}

bool is_field_value(std::string_view text) {
  bool is_bad = false;  // no early way out: so it is done many bytes at a time
  for (const char c : text) {
    is_bad |= is_control(c) && c != '\t';
  }
  return !is_bad;
}

void HeadScanner::reset() {
  position_ = line_start_ = lines_ = 0;
}

std::optional<Refusal> HeadScanner::over_limit() const {
  if (lines_ == 0 && position_ >= kMaxStartLineBytes) {
    return role_ == Role::kRequest ? Refusal{414, "the request line is too long"}
                                   : Refusal{431, "the status line is too long"};
  }
  if (position_ >= limits_.bytes) {
    return Refusal{431, "the header fields are too large"};
  }
  return std::nullopt;
}

// At the '\n' of a line that is not the empty one.
std::optional<Refusal> HeadScanner::end_line(std::string_view text) {
  if (position_ == 0 || text[position_ - 1] != '\r') {
    return Refusal{400, "a line does not end with CR LF"};
  }
  if (++lines_ > limits_.count + 1) {
    return Refusal{431, "too many header fields"};
  }
  line_start_ = position_ + 1;
  return std::nullopt;
}

std::expected<std::size_t, Refusal> HeadScanner::scan(std::string_view text) {
  for (; position_ < text.size(); ++position_) {
    if (position_ > line_start_ && text[position_ - 1] != '\r') {
      // Inside a line: most bytes need no second look.
      const auto limit = lines_ == 0 ? std::min(kMaxStartLineBytes, limits_.bytes) : limits_.bytes;
      position_ = skip_plain(text, position_, limit);
      if (position_ == text.size()) {
        break;
      }
    }
    if (const auto refusal = over_limit()) {
      return std::unexpected(*refusal);
    }
    const char c = text[position_];
    const char previous = position_ > 0 ? text[position_ - 1] : '\0';
    if (c == '\n') {
      if (previous == '\r' && position_ == line_start_ + 1) {
        if (lines_ == 0) {
          return std::unexpected(Refusal{400, "an empty line before the message"});
        }
        return position_ + 1;
      }
      if (const auto refusal = end_line(text)) {
        return std::unexpected(*refusal);
      }
      continue;
    }
    if (previous == '\r') {
      return std::unexpected(Refusal{400, "a carriage return without a line feed"});
    }
    if (position_ == line_start_ && (c == ' ' || c == '\t')) {
      return std::unexpected(Refusal{400, "a line starts with a blank"});
    }
    if (is_control(c) && c != '\t' && c != '\r') {
      return std::unexpected(Refusal{400, "control characters in the head"});
    }
  }
  return 0;
}

std::optional<Refusal> gate_request(Http1Head& head, Methods methods) {
  if (auto refusal = check_method(head.method, methods)) {
    return refusal;
  }
  if (!is_origin_form(head.target) && !(head.target == "*" && head.method == "OPTIONS")) {
    return Refusal{400, "the request target is not a plain path"};
  }
  if (auto refusal = check_fields(head.headers)) {
    return refusal;
  }
  if (auto refusal = check_host(head)) {
    return refusal;
  }
  if (auto refusal = decide_framing(head, {})) {
    return refusal;
  }
  if (head.headers.has("expect")) {
    if (head.headers.count("expect") > 1 ||
        !equals_ignore_case(head.headers.get("expect"), "100-continue")) {
      return Refusal{417, "the only expectation understood is 100-continue"};
    }
    head.expects_continue = head.minor_version >= 1 && head.framing.kind != Framing::Kind::kNone;
  }
  head.keep_alive = head.minor_version >= 1 && !list_has_token(head.headers, "connection", "close");
  return std::nullopt;
}

std::optional<Refusal> gate_response(Http1Head& head, bool bodiless) {
  if (head.status < 100 || head.status > 599) {
    return Refusal{502, "the status is out of range"};
  }
  if (auto refusal = check_fields(head.headers)) {
    return refusal;
  }
  if (auto refusal = decide_framing(head, {Framing::Kind::kUntilClose, 0})) {
    return refusal;
  }
  if (bodiless || head.status < 200 || head.status == 204 || head.status == 304) {
    head.framing = {};
  }
  head.keep_alive = head.minor_version >= 1 &&
                    !list_has_token(head.headers, "connection", "close") &&
                    head.framing.kind != Framing::Kind::kUntilClose;
  return std::nullopt;
}

std::optional<Refusal> gate_trailer(std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)) ||
      !is_field_value(line.substr(colon + 1))) {
    return Refusal{400, "a trailer line is malformed"};
  }
  const auto name = to_lower(line.substr(0, colon));
  if (std::ranges::find(kForbiddenInTrailer, name) != kForbiddenInTrailer.end()) {
    return Refusal{400, "a trailer field that may only be in the head"};
  }
  return std::nullopt;
}

}  // namespace atl::http
