// Small text functions that the standard library of this generation lacks. No locale, no I/O.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl {

// concat("a", 1, string) -> "a1..."; integers in decimal.
inline void append_piece(std::string& out, std::string_view piece) {
  out += piece;
}
inline void append_piece(std::string& out, const char* piece) {
  out += piece;
}
inline void append_piece(std::string& out, const std::string& piece) {
  out += piece;
}
inline void append_piece(std::string& out, char piece) {
  out += piece;
}
template <class Integer>
  requires std::is_integral_v<Integer>
void append_piece(std::string& out, Integer piece) {
  out += std::to_string(piece);
}
template <class... Pieces>
std::string concat(const Pieces&... pieces) {
  std::string out;
  (append_piece(out, pieces), ...);
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
bool equals_ignore_case(std::string_view a, std::string_view b);  // ASCII
std::string to_lower(std::string_view text);                      // ASCII
std::optional<std::uint64_t> parse_u64(std::string_view text);    // whole text, decimal
std::optional<std::int64_t> parse_i64(std::string_view text);
std::string hex(std::string_view bytes);
bool is_utf8(std::string_view text);
// Replaces each invalid UTF-8 sequence with U+FFFD.
std::string to_valid_utf8(std::string_view text);
std::string base64_encode(std::string_view bytes);
std::optional<std::string> base64_decode(std::string_view text);

// Appends "…" with JSON escapes; invalid UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);
// Appends with control characters made visible, for logs and terminals.
void append_printable(std::string& out, std::string_view text);

// "2026-11-15T08:22:51.123456789Z"
std::string format_rfc3339(std::time_t seconds, long nanoseconds);
// "1Gi", "512Mi", "1.5Gi", "2G", "1048576" -> bytes
std::optional<std::uint64_t> parse_quantity(std::string_view text);
// 1536 MiB -> "1536Mi"; exact, largest binary unit that divides it.
std::string format_quantity(std::uint64_t bytes);

}  // namespace atl
