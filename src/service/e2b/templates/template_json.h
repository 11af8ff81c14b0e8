// Templates, builds and what they say, as E2B's clients see them.
#pragma once

#include <string>
#include <vector>

#include "control/template_catalog.h"

namespace atl::service::e2b {

// Of the family; its default build decides what it needs.
Json family_json(const control::TemplateFamily& family, const control::Templates& templates);
// One that was never built here.
Json plain_json(const control::Template& row, const control::Templates& templates,
                std::string_view team_id);
Json build_json(const control::FamilyBuild& build);
Json strings_json(const std::vector<std::string>& values);
// "team/alias"
std::string full_name(const control::TemplateFamily& family);

// A line of a build's log as an entry.
struct LogEntry {
  UnixMillis at = 0;
  std::string level;
  std::string step;
  std::string message;
};
// `before` is when the entry before it was written: not every line knows its time.
LogEntry read_entry(const std::string& line, UnixMillis before);
Json entry_json(const LogEntry& entry);
// 0 debug, 1 info, 2 warn, 3 error; kInvalidArgument.
Result<int> parse_level(std::string_view text);
bool is_at_least(const LogEntry& entry, int level);

}  // namespace atl::service::e2b
