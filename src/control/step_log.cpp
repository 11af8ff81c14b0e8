#include "control/step_log.h"

#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{16} * 1024;
// Well below what a BuildLog keeps, which counts names and quotes too.
constexpr std::size_t kMaxStepLogBytes = kMaxBuildLogBytes / 2;
constexpr std::size_t kEntryBytes = 128;

}  // namespace

void StepLog::add(std::string_view level, std::string_view text) {
  if (full_) {
    return;
  }
  bytes_ += text.size() + kEntryBytes;
  full_ = bytes_ > kMaxStepLogBytes;
  log_.add(Json::object(
      {{"type", "entry"},
       {"at", clock_.now()},
       {"level", full_ ? "warn" : level},
       {"step", step_},
       {"text", full_ ? "the log is full; what follows is not kept" : to_valid_utf8(text)}}));
}

void StepLog::add_line(std::string_view prefix, guest::Stream stream, std::string_view line) {
  while (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  const bool error = stream == guest::Stream::kStderr;
  add(error ? "warn" : "info", concat(prefix, error ? " [stderr]: " : " [stdout]: ", line));
}

void StepLog::output(std::string_view prefix, const guest::Output& output) {
  std::string& partial = partial_[output.header.stream];
  partial += output.bytes;
  std::string_view rest = partial;
  for (;;) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos && rest.size() < kMaxLineBytes) {
      break;
    }
    const std::size_t size = std::min(end, kMaxLineBytes);
    add_line(prefix, output.header.stream, rest.substr(0, size));
    rest.remove_prefix(size == end ? size + 1 : size);
  }
  partial.erase(0, partial.size() - rest.size());
}

void StepLog::end_output(std::string_view prefix) {
  for (const auto& [stream, text] : partial_) {
    if (!text.empty()) {
      add_line(prefix, stream, text);
    }
  }
  partial_.clear();
}

}  // namespace atl::control
