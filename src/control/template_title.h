// How people call templates: [namespace/]alias[:tag], in small letters.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::control {

inline constexpr std::string_view kDefaultTag = "default";

struct TemplateTitle {
  std::string space;  // a team; empty: whoever asks
  std::string alias;
  std::string tag;  // empty: none was given
  bool operator==(const TemplateTitle&) const = default;
};

// kInvalidArgument says what is wrong. Alias and namespace are of a-z, 0-9, '-' and '_'.
Result<TemplateTitle> parse_title(std::string_view text);
// Of a-z, 0-9, '-', '_' and '.', and not like the id of a build.
Result<std::string> parse_tag(std::string_view text);
// "0f8fad5b-d9cb-469f-a165-70867728950e"
bool is_uuid(std::string_view text);
std::string random_uuid();
inline constexpr std::size_t kTemplateIdBytes = 20;
// So many of a-z and 0-9, always the same for the same text.
std::string derived_template_id(std::string_view text);

}  // namespace atl::control
