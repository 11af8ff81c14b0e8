#include "egress/host_name.h"

#include <algorithm>

#include "base/strings.h"
#include "egress/address.h"

namespace atl::egress {
namespace {

constexpr std::size_t kMaxNameBytes = 253;
constexpr std::size_t kMaxLabelBytes = 63;

bool is_label(std::string_view label, bool underscores) {
  if (label.empty() || label.size() > kMaxLabelBytes || label.front() == '-' ||
      label.back() == '-') {
    return false;
  }
  return std::all_of(label.begin(), label.end(), [underscores](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           (underscores && c == '_');
  });
}

// "127.1", "0x7f000001" and "2130706433" are addresses to inet_aton, and so to many clients. A name
// whose last label is a number in any spelling is therefore none (as URL parsers have it).
bool ends_in_number(std::string_view name) {
  const auto last =
      name.substr(name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.') + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (std::all_of(last.begin(), last.end(), is_digit)) {
    return true;
  }
  return last.starts_with("0x") && std::all_of(last.begin() + 2, last.end(), [&](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f');
         });
}

std::optional<std::string> normal_name(std::string_view text, bool underscores) {
  if (text.ends_with('.')) {
    text.remove_suffix(1);
  }
  if (text.empty() || text.size() > kMaxNameBytes) {
    return std::nullopt;
  }
  std::string name = to_lower(text);
  for (const auto label : split(name, '.')) {
    if (!is_label(label, underscores)) {
      return std::nullopt;
    }
  }
  if (ends_in_number(name)) {
    return std::nullopt;
  }
  return name;
}

}  // namespace

std::optional<std::string> normal_host_name(std::string_view text) {
  return normal_name(text, false);
}

std::optional<std::string> normal_dns_name(std::string_view text) {
  return normal_name(text, true);
}

std::optional<DomainPattern> DomainPattern::parse(std::string_view text) {
  DomainPattern pattern;
  if (text == "*") {
    pattern.text_ = "*";
    return pattern;
  }
  const std::string_view prefix = text.starts_with("*.") ? "*." : text.starts_with('.') ? "." : "";
  const auto name = normal_host_name(text.substr(prefix.size()));
  if (!name) {
    return std::nullopt;
  }
  pattern.text_ = concat(prefix, *name);
  return pattern;
}

bool DomainPattern::matches(std::string_view name) const {
  if (text_ == "*") {
    return true;
  }
  const std::string_view text = text_;
  if (text.starts_with('.')) {
    return name.size() > text.size() && name.ends_with(text);
  }
  if (!text.starts_with("*.")) {
    return name == text;
  }
  return name == text.substr(2) ||
         (name.size() > text.size() - 1 && name.ends_with(text.substr(1)));
}

}  // namespace atl::egress
