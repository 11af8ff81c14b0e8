// The small language inside Dockerfile lines: quoting, escapes and ${variables}.
//
// Words are split on blanks that are neither quoted nor escaped, and keep their quotes; expanding a
// word removes the quotes and replaces variables. Single quotes keep everything as it is. Known
// forms: $X, ${X}, ${X:-d} ${X-d} (default), ${X:+v} ${X+v} (value if set), ${X:?e} ${X?e}
// (refuse).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::oci {

using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

Result<std::vector<std::string>> split_words(std::string_view text, char escape);
Result<std::string> expand_word(std::string_view word, const Lookup& lookup, char escape);

}  // namespace atl::oci
