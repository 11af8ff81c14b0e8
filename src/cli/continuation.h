// Whether what has been typed so far is the whole of a piece of code.
//
// Asked after each line of a person who types. Only brackets, strings, comments and the shape of
// lines are looked at; what it gets wrong the interpreter will say.
#pragma once

#include <string_view>

namespace atl::cli {

// `language` as in the API: python, javascript, typescript, bash, ...
bool wants_more_lines(std::string_view language, std::string_view code);

}  // namespace atl::cli
