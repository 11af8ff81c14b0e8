#include "cli/escape_filter.h"

namespace atl::cli {
namespace {

constexpr char kEscape = '~';
constexpr char kControlZ = 0x1a;

}  // namespace

EscapeFilter::Step EscapeFilter::feed(std::string_view bytes) {
  Step step;
  if (!enabled_) {
    step.keys = bytes;
    step.taken = bytes.size();
    return step;
  }
  for (const char key : bytes) {
    ++step.taken;
    if (held_) {
      step.action = decide(key, step.keys);
      if (step.action != Action::kNone) {
        return step;
      }
    } else if (line_start_ && key == kEscape) {
      held_ = true;
    } else {
      step.keys += key;
      line_start_ = key == '\r' || key == '\n';
    }
  }
  return step;
}

EscapeFilter::Action EscapeFilter::decide(char key, std::string& keys) {
  held_ = false;
  switch (key) {
    case '.':
      return Action::kDetach;
    case kControlZ:
      return Action::kSuspend;
    case '?':
      return Action::kExplain;
    case kEscape:
      keys += kEscape;
      break;
    default:
      keys += kEscape;
      keys += key;
      break;
  }
  line_start_ = key == '\r' || key == '\n';
  return Action::kNone;
}

}  // namespace atl::cli
