#include "oci/ignore.h"

#include "base/strings.h"
#include "oci/limits.h"

namespace atl::oci {
namespace {

struct ClassMatch {
  std::size_t end = 0;  // behind the ]; 0: no class
  bool matched = false;
};

ClassMatch match_class(std::string_view pattern, std::size_t at, char c) {
  std::size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '^' || pattern[i] == '!');
  i += negated ? 1 : 0;
  bool found = false;
  for (bool first = true; i < pattern.size() && (first || pattern[i] != ']'); first = false) {
    const char low = pattern[i];
    char high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      high = pattern[i + 2];
      i += 2;
    }
    found = found || (low <= c && c <= high);
    ++i;
  }
  if (i >= pattern.size()) {
    return {};
  }
  return {i + 1, found != negated};
}

// One component. Only the last star is ever tried again, which is enough.
bool matches_component(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = pattern.npos;
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      continue;
    }
    std::size_t next = 0;
    if (p < pattern.size()) {
      if (pattern[p] == '?') {
        next = p + 1;
      } else if (const auto match =
                     pattern[p] == '[' ? match_class(pattern, p, text[t]) : ClassMatch{};
                 match.end != 0) {
        next = match.matched ? match.end : 0;
      } else if (pattern[p] == '\\' && p + 1 < pattern.size()) {
        next = pattern[p + 1] == text[t] ? p + 2 : 0;
      } else if (pattern[p] == text[t]) {
        next = p + 1;
      }
    }
    if (next != 0) {
      p = next;
      ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace

bool has_wildcard(std::string_view text) {
  return text.find_first_of("*?[") != text.npos;
}

// The same idea one level up, with ** as the star over components.
bool matches_path(std::string_view pattern, std::string_view path) {
  const auto patterns = split(pattern, '/');
  const auto parts = split(path, '/');
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = pattern.npos;
  std::size_t star_part = 0;
  while (t < parts.size()) {
    if (p < patterns.size() && patterns[p] == "**") {
      star = p++;
      star_part = t;
    } else if (p < patterns.size() && matches_component(patterns[p], parts[t])) {
      ++p;
      ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++star_part;
    } else {
      return false;
    }
  }
  while (p < patterns.size() && patterns[p] == "**") {
    ++p;
  }
  return p == patterns.size();
}

Result<IgnoreRules> IgnoreRules::parse(std::string_view text) {
  IgnoreRules rules;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    Rule rule;
    if (line.starts_with('!')) {
      rule.exclude = false;
      line = trim(line.substr(1));
    }
    while (line.starts_with("./")) {
      line.remove_prefix(2);
    }
    while (line.starts_with('/')) {
      line.remove_prefix(1);
    }
    while (line.ends_with('/')) {
      line.remove_suffix(1);
    }
    if (line.empty() || line == ".") {
      continue;
    }
    rule.pattern = line;
    rules.rules_.push_back(std::move(rule));
    if (rules.rules_.size() > kMaxIgnorePatterns) {
      return fail(Code::kInvalidArgument,
                  concat(".dockerignore has more than ", kMaxIgnorePatterns, " patterns"));
    }
  }
  return rules;
}

bool IgnoreRules::ignores(std::string_view path) const {
  bool ignored = false;
  for (const Rule& rule : rules_) {
    bool matched = matches_path(rule.pattern, path);
    for (auto slash = path.rfind('/'); !matched && slash != path.npos && slash > 0;
         slash = path.rfind('/', slash - 1)) {
      matched = matches_path(rule.pattern, path.substr(0, slash));
    }
    if (matched) {
      ignored = rule.exclude;
    }
  }
  return ignored;
}

}  // namespace atl::oci
