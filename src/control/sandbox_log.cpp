#include "control/sandbox_log.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::control {
namespace {

std::size_t size_of(const SandboxLogLine& line) {
  std::size_t bytes = sizeof line + line.source.size() + line.message.size();
  for (const auto& [name, value] : line.fields) {
    bytes += name.size() + value.size();
  }
  return bytes;
}

}  // namespace

void SandboxLog::add(const std::string& sandbox_id, SandboxLogLine line) {
  if (!sandboxes_.get_of_any_team(sandbox_id)) {
    return;
  }
  if (lines_.size() >= tidy_at_) {
    forget_lost();
  }
  line.at = clock_.now();
  line.message = to_valid_utf8(std::string_view{line.message}.substr(0, kMaxLogMessageBytes));
  Lines& kept = lines_[sandbox_id];
  kept.bytes += size_of(line);
  kept.lines.push_back(std::move(line));
  while (kept.lines.size() > kMaxLogLines || kept.bytes > kMaxLogBytes) {
    kept.bytes -= size_of(kept.lines.front());
    kept.lines.pop_front();
  }
}

std::vector<SandboxLogLine> SandboxLog::read(std::string_view sandbox_id) const {
  const auto found = lines_.find(sandbox_id);
  if (found == lines_.end()) {
    return {};
  }
  return {found->second.lines.begin(), found->second.lines.end()};
}

// Sandboxes go in many ways. Looked for whenever what is kept has doubled.
void SandboxLog::forget_lost() {
  std::erase_if(lines_, [this](const auto& each) {
    return !sandboxes_.get_of_any_team(each.first).has_value();
  });
  tidy_at_ = std::max<std::size_t>(64, 2 * lines_.size());
}

}  // namespace atl::control
