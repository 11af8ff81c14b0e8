// Putting real values in place of the placeholders a sandbox holds.
//
// A sandbox knows a credential only as an opaque string. On its way to a host that the credential
// belongs to, exact occurrences are replaced: from left to right, the longest first, and a value
// that was put in is never looked at again. The value is escaped for where it goes: JSON in a JSON
// body, percent-encoded in a form or a query, as it is elsewhere; in a Basic authorization the
// placeholder is looked for inside. A body is rewritten as it streams, also when a placeholder is
// cut by chunks.
//
// On the way to any other host the same search finds a placeholder that is about to be sent where
// it does not belong, also when it is percent-encoded or in base64.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::egress {

inline constexpr std::size_t kLeastPlaceholderBytes = 8;
inline constexpr std::size_t kMostPlaceholderBytes = 256;

enum class ValueEscape : std::uint8_t { kNone, kJson, kPercent };
// By the type of a body: application/json and +json, forms, anything else.
ValueEscape escape_for_content_type(std::string_view content_type);
std::string escape_value(std::string_view value, ValueEscape escape);

struct Replacement {
  std::string placeholder;
  std::string_view value;  // a secret that its owner keeps
};

// REQUIRES: outlived by the replacements' values.
class PlaceholderRewriter {
 public:
  PlaceholderRewriter(std::vector<Replacement> replacements, ValueEscape escape);

  // What can be sent on now; the rest waits for more.
  std::string feed(std::string_view chunk);
  // What was waiting. Nothing may be fed after it.
  std::string finish();
  std::uint64_t replaced() const { return replaced_; }

 private:
  std::string take_complete(bool last);

  std::vector<Replacement> replacements_;  // the longest placeholder first
  ValueEscape escape_;
  std::string waiting_;
  std::uint64_t replaced_ = 0;
};

// A whole text. kInvalidArgument when the result could not be a header value (a line break, NUL).
Result<std::string> rewrite_header(std::string_view name, std::string_view value,
                                   const std::vector<Replacement>& replacements);
std::string rewrite_text(std::string_view text, const std::vector<Replacement>& replacements,
                         ValueEscape escape);

// The first of the placeholders that occurs: as it is, percent-encoded or inside base64.
std::optional<std::string> find_placeholder(std::string_view text,
                                            const std::vector<std::string>& placeholders);

}  // namespace atl::egress
