#include "proxy/http/placeholder_guard.h"

#include <algorithm>

#include "egress/placeholders.h"

namespace atl::proxy::http {
namespace {

constexpr std::size_t kLongestEscapeBytes = 6;  // \u0041
constexpr std::size_t kSliceBytes = std::size_t{16} * 1024;

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// ASCII characters written as \u00XX, and \/, as they are. For searching only.
std::string without_json_escapes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto rest = text.substr(at);
    if (rest.size() >= 6 && rest.starts_with("\\u00")) {
      const int high = hex_value(rest[4]);
      const int low = hex_value(rest[5]);
      if (high >= 0 && high < 8 && low >= 0) {
        out += static_cast<char>(high << 4 | low);
        at += 5;
        continue;
      }
    }
    if (rest.starts_with("\\/")) {
      continue;
    }
    out += text[at];
  }
  return out;
}

}  // namespace

bool carries_placeholder(std::string_view text, const std::vector<std::string>& placeholders) {
  if (placeholders.empty() || text.size() < egress::kLeastPlaceholderBytes) {
    return false;
  }
  if (egress::find_placeholder(text, placeholders)) {
    return true;
  }
  return text.find('\\') != std::string_view::npos &&
         egress::find_placeholder(without_json_escapes(text), placeholders).has_value();
}

PlaceholderGuard::PlaceholderGuard(std::vector<std::string> placeholders)
    : placeholders_(std::move(placeholders)) {
  std::size_t longest = 0;
  for (const auto& one : placeholders_) {
    longest = std::max(longest, one.size());
  }
  reach_bytes_ = longest * kLongestEscapeBytes + 8;
}

Result<std::string> PlaceholderGuard::feed(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size() && !placeholders_.empty(); at += kSliceBytes) {
    window_ += bytes.substr(at, kSliceBytes);
    if (carries_placeholder(window_, placeholders_)) {
      return fail(Code::kPermissionDenied, std::string{kMisdirectedPlaceholder},
                  "placeholder_misdirected");
    }
    if (window_.size() > reach_bytes_) {
      window_.erase(0, window_.size() - reach_bytes_);
    }
  }
  return std::string{bytes};
}

}  // namespace atl::proxy::http
