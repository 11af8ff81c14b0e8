// Progress of something slow, on standard error: one line that is rewritten on a terminal, else a
// plain line per step and per tenth.
#pragma once

#include <string>
#include <string_view>

namespace atl::daemon {

class ProgressLine {
 public:
  explicit ProgressLine(std::string subject);
  ~ProgressLine();  // ends the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(std::string_view step, double fraction);  // fraction < 0: unknown

 private:
  std::string subject_;
  bool terminal_;
  std::string step_;
  int tenth_ = -1;
  std::size_t width_ = 0;
};

}  // namespace atl::daemon
