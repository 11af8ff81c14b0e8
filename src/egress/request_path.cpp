#include "egress/request_path.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::egress {
namespace {

std::unexpected<Error> ambiguous(std::string_view what) {
  return fail(Code::kInvalidArgument, concat("the path of the request is ambiguous: ", what));
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

// One escape at `at`; appended in the form that is compared.
Result<> append_escape(std::string_view path, std::size_t at, std::string& out) {
  const int high = at + 2 < path.size() ? hex_value(path[at + 1]) : -1;
  const int low = at + 2 < path.size() ? hex_value(path[at + 2]) : -1;
  if (high < 0 || low < 0) {
    return ambiguous("a percent sign without two hexadecimal digits");
  }
  const auto decoded = static_cast<char>(high << 4 | low);
  const bool control = static_cast<unsigned char>(decoded) < 0x20 || decoded == 0x7f;
  if (decoded == '/' || decoded == '\\' || decoded == '%' || control) {
    return ambiguous("it has an encoded slash, backslash, percent sign or control character");
  }
  const auto byte = static_cast<unsigned char>(decoded);
  if (byte == 0xc0 || byte == 0xc1 || byte > 0xf4) {
    return ambiguous("it has an escape that no UTF-8 text has; some read a dot or a slash there");
  }
  if (is_unreserved(decoded)) {
    out += decoded;
  } else {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    out += '%';
    out += kDigits[static_cast<std::size_t>(high)];
    out += kDigits[static_cast<std::size_t>(low)];
  }
  return {};
}

// "..;x" is ".." to servers that cut off parameters, to some also when the semicolon is escaped.
bool is_dot_segment(std::string_view segment) {
  const auto name = segment.substr(0, std::min(segment.find(';'), segment.find("%3B")));
  return name == "." || name == "..";
}

}  // namespace

std::string path_without_parameters(std::string_view path) {
  std::string out;
  for (const auto segment : split(path, '/')) {
    out += segment.substr(0, std::min(segment.find(';'), segment.find("%3B")));
    out += '/';
  }
  out.pop_back();
  return out;
}

Result<std::string> canonical_path(std::string_view path) {
  if (!path.starts_with('/') || path.starts_with("//")) {
    return ambiguous("it does not begin with one slash");
  }
  std::string out;
  // The escape at the very end needs no special case: append_escape looks at the bounds.
  for (std::size_t at = 0; at < path.size(); ++at) {
    const char c = path[at];
    if (c == '%') {
      TRY_DO(append_escape(path, at, out));
      at += 2;
    } else if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f || c == '\\' || c == '?' ||
               c == '#') {
      return ambiguous("it has a backslash, a blank or a control character");
    } else {
      out += c;
    }
  }
  for (const auto segment : split(out, '/')) {
    if (is_dot_segment(segment)) {
      return ambiguous("it has a dot segment");
    }
  }
  return out;
}

}  // namespace atl::egress
