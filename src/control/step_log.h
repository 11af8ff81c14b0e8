// What the steps of a build have to say, entry by entry:
// {"type":"entry","at":ms,"level":"info","step":"2","text":...}.
//
// All is kept up to a bound and nothing after it, so an entry has the same number for good. Loop
// thread only.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "control/build_log.h"
#include "guest/wire.h"

namespace atl::control {

class StepLog {
 public:
  StepLog(BuildLog& log, const WallClock& clock) : log_(log), clock_(clock) {}

  // "base", "1", "2", ..., "finalize"
  void begin(std::string step) { step_ = std::move(step); }
  const std::string& step() const { return step_; }
  UnixMillis now() const { return clock_.now(); }
  void add(std::string_view level, std::string_view text);
  // Of a process, in pieces: whole lines are told, each after `prefix`.
  void output(std::string_view prefix, const guest::Output& output);
  // What has no end of line is told too.
  void end_output(std::string_view prefix);

 private:
  void add_line(std::string_view prefix, guest::Stream stream, std::string_view line);

  BuildLog& log_;
  const WallClock& clock_;
  std::string step_ = "base";
  std::map<guest::Stream, std::string> partial_;
  std::size_t bytes_ = 0;
  bool full_ = false;
};

}  // namespace atl::control
