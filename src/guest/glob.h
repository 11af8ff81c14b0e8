// File name patterns over whole relative paths: * ? [..] stay within a component, a component that
// is ** stands for any number of components, also none. Components are matched by fnmatch(3).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atl::guest {

class Glob {
 public:
  Glob(std::string_view pattern, bool ignore_case);
  // An empty pattern matches everything.
  bool matches(std::string_view path) const;

 private:
  bool matches_component(const std::string& pattern, std::string_view name) const;

  std::vector<std::string> components_;
  int flags_;
};

}  // namespace atl::guest
