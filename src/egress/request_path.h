// The path of a request in the one form that rules are asked about.
//
// A rule about "/allowed" is worth nothing if "/allowed/../secret" passes it. So a path that a
// server might read in more than one way is refused instead of repaired: dot segments, an encoded
// slash, backslash, dot segment or NUL, an empty segment at the beginning, control bytes. What
// cannot be ambiguous is brought into one form: percent-encoded letters, digits and "-._~" are
// decoded, other escapes get capital letters.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::egress {

// REQUIRES: the path of a target, without its query. kInvalidArgument says what is ambiguous.
Result<std::string> canonical_path(std::string_view path);
// "/a;x=y/b" as servers read it that cut off parameters: "/a/b". What is denied is denied in this
// form too. REQUIRES: a canonical path.
std::string path_without_parameters(std::string_view path);

}  // namespace atl::egress
