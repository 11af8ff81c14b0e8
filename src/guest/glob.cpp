#include "guest/glob.h"

#include <fnmatch.h>

#include <optional>

#include "base/strings.h"

namespace atl::guest {

Glob::Glob(std::string_view pattern, bool ignore_case) : flags_(ignore_case ? FNM_CASEFOLD : 0) {
  if (pattern.empty()) {
    return;
  }
  for (const auto component : split(pattern, '/')) {
    const bool again = component == "**" && !components_.empty() && components_.back() == "**";
    if (!component.empty() && component != "." && !again) {
      components_.emplace_back(component);
    }
  }
}

bool Glob::matches_component(const std::string& pattern, std::string_view name) const {
  return ::fnmatch(pattern.c_str(), std::string{name}.c_str(), flags_) == 0;
}

// The usual walk with one place to go back to: what an earlier ** could take more of, the last one
// can take as well.
bool Glob::matches(std::string_view path) const {
  if (components_.empty()) {
    return true;
  }
  const auto names = split(path, '/');
  std::size_t at = 0;
  std::size_t name = 0;
  std::optional<std::size_t> star;  // the component after the last **
  std::size_t star_name = 0;        // the first name it has not taken yet
  while (name < names.size()) {
    if (at < components_.size() && components_[at] == "**") {
      star = ++at;
      star_name = name;
    } else if (at < components_.size() && matches_component(components_[at], names[name])) {
      ++at;
      ++name;
    } else if (star) {
      at = *star;
      name = ++star_name;
    } else {
      return false;
    }
  }
  while (at < components_.size() && components_[at] == "**") {
    ++at;
  }
  return at == components_.size();
}

}  // namespace atl::guest
