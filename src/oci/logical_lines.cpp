#include "oci/logical_lines.h"

#include "base/strings.h"

namespace atl::oci {

std::string_view trim_left(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  return text;
}

LogicalLines::LogicalLines(std::string_view text) {
  for (std::string_view line : split(text, '\n')) {
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    lines_.push_back(line);
  }
  read_directives();
}

std::optional<std::string> LogicalLines::next(int& first_line) {
  std::string joined;
  bool begun = false;
  while (at_ < lines_.size()) {
    const std::string_view line = lines_[at_++];
    const std::string_view content = trim_left(line);
    if (content.starts_with('#') || trim(content).empty()) {
      continue;
    }
    if (!begun) {
      first_line = static_cast<int>(at_);
      begun = true;
    }
    std::string_view body = line;
    while (!body.empty() && (body.back() == ' ' || body.back() == '\t')) {
      body.remove_suffix(1);
    }
    if (!body.ends_with(escape_)) {
      joined += line;
      return joined;
    }
    body.remove_suffix(1);
    joined += body;
  }
  return begun ? std::optional{joined} : std::nullopt;
}

std::optional<std::string_view> LogicalLines::next_raw() {
  return at_ < lines_.size() ? std::optional{lines_[at_++]} : std::nullopt;
}

void LogicalLines::read_directives() {
  for (const std::string_view line : lines_) {
    std::string_view text = trim(line);
    if (!text.starts_with('#')) {
      return;
    }
    text = trim(text.substr(1));
    const auto equals = text.find('=');
    if (equals == text.npos) {
      return;  // the first comment ends the directives
    }
    const std::string name = to_lower(trim(text.substr(0, equals)));
    const std::string_view value = trim(text.substr(equals + 1));
    if (name == "escape" && (value == "`" || value == "\\")) {
      escape_ = value.front();
    } else if (name != "syntax" && name != "check") {
      return;
    }
  }
}

}  // namespace atl::oci
