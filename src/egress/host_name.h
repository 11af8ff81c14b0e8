// Host names, brought into the one form in which they are compared.
//
// A name that reaches a rule is lower case, without a trailing dot, in ASCII (an international name
// is in its xn-- form already: what a sandbox sends on a wire is bytes, and we refuse bytes that
// DNS would not carry). Anything that looks like an address is no name, however it is spelled,
// because a resolver might take it for one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace atl::egress {

// The name in that form; nothing when it is none. Underscores are refused: no certificate may carry
// them, and service labels are asked of DNS only.
std::optional<std::string> normal_host_name(std::string_view text);
// The same, for what is asked of DNS: underscores are allowed.
std::optional<std::string> normal_dns_name(std::string_view text);

// "example.com", or "*.example.com" for it and all below it, or ".example.com" for all below it but
// not itself, or "*" for every name.
class DomainPattern {
 public:
  static std::optional<DomainPattern> parse(std::string_view text);
  // REQUIRES: a normal name.
  bool matches(std::string_view name) const;
  const std::string& text() const { return text_; }
  bool operator==(const DomainPattern&) const = default;

 private:
  std::string text_;  // as compared, "*." or "." kept
};

}  // namespace atl::egress
