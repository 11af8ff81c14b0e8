#include "daemon/progress.h"

#include <unistd.h>

#include <algorithm>

#include "base/strings.h"

namespace atl::daemon {
namespace {

constexpr std::size_t kMaxStepBytes = 60;

void write_error_output(const std::string& text) {
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

ProgressLine::ProgressLine(std::string subject)
    : subject_(std::move(subject)), terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (terminal_ && width_ > 0) {
    write_error_output("\n");
  }
}

void ProgressLine::show(std::string_view step, double fraction) {
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100);
  std::string line = concat(subject_, ": ");
  append_printable(line, step.substr(0, kMaxStepBytes));
  if (fraction >= 0) {
    line += concat(" ", percent, "%");
  }
  if (terminal_) {
    const std::size_t blanks = width_ > line.size() ? width_ - line.size() : 0;
    width_ = line.size();
    write_error_output(concat("\r", line, std::string(blanks, ' ')));
    return;
  }
  const int tenth = fraction < 0 ? -1 : percent / 10;
  if (step != step_ || tenth != tenth_) {
    step_ = step;
    tenth_ = tenth;
    write_error_output(line + "\n");
  }
}

}  // namespace atl::daemon
