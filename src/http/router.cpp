// A linear walk over the routes: a server has tens of them, and each comparison ends at the first
// segment that differs. Among the routes that match, the one whose literals come first wins, so
// the order of add() does not matter.
#include "http/router.h"

#include "base/strings.h"

namespace atl::http {
namespace {

bool is_name(std::string_view segment) {
  return segment.size() > 2 && segment.starts_with('{') && segment.ends_with('}');
}

// "/a/b" -> {"a", "b"}; "/" -> {""}
std::vector<std::string_view> segments_of(std::string_view path) {
  return split(path.substr(path.starts_with('/') ? 1 : 0), '/');
}

// The decoded value of a named segment. A NUL would end the value early in every system call.
std::optional<std::string> name_value(std::string_view segment) {
  auto value = percent_decode(segment);
  if (!value || value->empty() || value->find('\0') != std::string::npos) {
    return std::nullopt;
  }
  return value;
}

bool matches(const std::vector<std::string>& pattern, const std::vector<std::string_view>& path) {
  if (pattern.size() != path.size()) {
    return false;
  }
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_name(pattern[i]) ? !name_value(path[i]).has_value() : pattern[i] != path[i]) {
      return false;
    }
  }
  return true;
}

// True when `a` has a literal at the first place where the two differ in kind.
bool more_literal(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_name(a[i]) != is_name(b[i])) {
      return !is_name(a[i]);
    }
  }
  return false;
}

}  // namespace

void Router::add(std::string_view method, std::string_view pattern, RouteHandler handler) {
  CHECK(pattern.starts_with('/'));
  Route route{std::string{method}, std::string{pattern}, {}, std::move(handler)};
  for (const auto segment : segments_of(pattern)) {
    route.segments.emplace_back(segment);
  }
  routes_.push_back(std::move(route));
}

Router::Match Router::match(std::string_view method, std::string_view path) const {
  const auto segments = segments_of(path);
  const Route* best = nullptr;
  std::string allowed;
  if (path.starts_with('/')) {
    for (const auto& route : routes_) {
      if (!matches(route.segments, segments)) {
        continue;
      }
      if (route.method != method) {
        if (concat(", ", allowed, ",").find(concat(", ", route.method, ",")) == std::string::npos) {
          allowed += concat(allowed.empty() ? "" : ", ", route.method);
        }
      } else if (best == nullptr || more_literal(route.segments, best->segments)) {
        best = &route;
      }
    }
  }
  Match match;
  if (best == nullptr) {
    match.allowed_methods = std::move(allowed);
    return match;
  }
  match.handler = &best->handler;
  match.pattern = best->pattern;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::string_view segment = best->segments[i];
    if (is_name(segment)) {
      match.parameters.emplace(segment.substr(1, segment.size() - 2), *name_value(segments[i]));
    }
  }
  return match;
}

}  // namespace atl::http
