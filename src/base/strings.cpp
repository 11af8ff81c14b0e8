#include "base/strings.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace atl {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// Length of the valid UTF-8 sequence at the start of `text`, 0 when there is none.
std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  std::size_t size = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    size = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    size = 3;
    low = first == 0xE0 ? 0xA0 : 0x80;
    high = first == 0xED ? 0x9F : 0xBF;
  } else if (first >= 0xF0 && first <= 0xF4) {
    size = 4;
    low = first == 0xF0 ? 0x90 : 0x80;
    high = first == 0xF4 ? 0x8F : 0xBF;
  } else {
    return 0;
  }
  if (text.size() < size || byte(1) < low || byte(1) > high) {
    return 0;
  }
  for (std::size_t i = 2; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  return size;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool equals_ignore_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) {
      return false;
    }
  }
  return true;
}

std::string to_lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) {
    c = lower(c);
  }
  return out;
}

std::optional<std::uint64_t> parse_u64(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> parse_i64(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return value;
}

std::string hex(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto value = static_cast<unsigned char>(c);
    out += kHexDigits[value >> 4];
    out += kHexDigits[value & 15];
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto size = utf8_sequence(text);
    if (size == 0) {
      return false;
    }
    text.remove_prefix(size);
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto size = utf8_sequence(text);
    out += size == 0 ? kReplacement : text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

// In the path of whatever processes print: whole groups without a question about each byte.
std::string base64_encode(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '=');
  char* to = out.data();
  const auto at = [bytes](std::size_t i) -> unsigned {
    return static_cast<unsigned char>(bytes[i]);
  };
  std::size_t i = 0;
  for (; i + 2 < bytes.size(); i += 3) {
    const unsigned group = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    *to++ = kBase64[group >> 18];
    *to++ = kBase64[group >> 12 & 63];
    *to++ = kBase64[group >> 6 & 63];
    *to++ = kBase64[group & 63];
  }
  if (i < bytes.size()) {
    const bool two = i + 1 < bytes.size();
    const unsigned group = at(i) << 16 | (two ? at(i + 1) << 8 : 0);
    *to++ = kBase64[group >> 18];
    *to++ = kBase64[group >> 12 & 63];
    if (two) {
      *to++ = kBase64[group >> 6 & 63];
    }
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) {
    return std::nullopt;
  }
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') {
    ++padding;
  }
  std::string out;
  out.reserve(text.size() / 4 * 3);
  unsigned group = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i >= text.size() - padding;
    const auto value = is_padding ? 0 : kBase64.find(text[i]);
    if (value == std::string_view::npos) {
      return std::nullopt;
    }
    group = group << 6 | static_cast<unsigned>(value);
    if (i % 4 == 3) {
      out += static_cast<char>(group >> 16 & 0xff);
      out += static_cast<char>(group >> 8 & 0xff);
      out += static_cast<char>(group & 0xff);
      group = 0;
    }
  }
  out.resize(out.size() - padding);
  return out;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const char c = text[0];
    const auto size = utf8_sequence(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += "\\u00";
      out += kHexDigits[static_cast<unsigned char>(c) >> 4];
      out += kHexDigits[static_cast<unsigned char>(c) & 15];
    } else {
      out += size == 0 ? kReplacement : text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  out += '"';
}

void append_printable(std::string& out, std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters too: to some terminals U+009B is ESC [.
    const bool wide = byte == 0xc2 && i + 1 < text.size() &&
                      (static_cast<unsigned char>(text[i + 1]) & 0xe0U) == 0x80;
    if (wide) {
      byte = static_cast<unsigned char>(text[++i]);
    }
    if (wide || byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    } else {
      out += text[i];
    }
  }
}

std::string format_rfc3339(std::time_t seconds, long nanoseconds) {
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 80> buffer{};
  const int size = std::snprintf(
      buffer.data(), buffer.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%09ldZ", parts.tm_year + 1900,
      parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, nanoseconds);
  return {buffer.data(), static_cast<std::size_t>(size)};
}

std::optional<std::uint64_t> parse_quantity(std::string_view text) {
  struct Unit {
    std::string_view suffix;
    std::uint64_t factor;
  };
  constexpr std::array<Unit, 11> kUnits{{{"Ki", 1ULL << 10},
                                         {"Mi", 1ULL << 20},
                                         {"Gi", 1ULL << 30},
                                         {"Ti", 1ULL << 40},
                                         {"k", 1000},
                                         {"K", 1000},
                                         {"M", 1000ULL * 1000},
                                         {"G", 1000ULL * 1000 * 1000},
                                         {"T", 1000ULL * 1000 * 1000 * 1000},
                                         {"B", 1},
                                         {"", 1}}};
  const auto digits_end = text.find_first_not_of("0123456789.");
  const auto number = text.substr(0, digits_end);
  const auto suffix = digits_end == std::string_view::npos ? "" : text.substr(digits_end);
  for (const auto& unit : kUnits) {
    if (suffix != unit.suffix) {
      continue;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc{} || end != number.data() + number.size() || number.empty() ||
        value * static_cast<double>(unit.factor) > 9e18) {
      return std::nullopt;
    }
    return static_cast<std::uint64_t>(value * static_cast<double>(unit.factor));
  }
  return std::nullopt;
}

std::string format_quantity(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kSuffixes{"", "Ki", "Mi", "Gi", "Ti"};
  std::size_t unit = 0;
  while (unit + 1 < kSuffixes.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return concat(bytes, kSuffixes[unit]);
}

}  // namespace atl
