// What happened to each sandbox and what was asked of it, for its owner to read: the newest lines,
// in this process's memory. The log of the server itself is another thing. Loop thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "control/sandboxes.h"

namespace atl::control {

inline constexpr std::size_t kMaxLogLines = 1000;  // of a sandbox
inline constexpr std::size_t kMaxLogBytes = std::size_t{128} * 1024;
inline constexpr std::size_t kMaxLogMessageBytes = 1024;

struct SandboxLogLine {
  enum class Level : std::uint8_t { kDebug, kInfo, kWarn, kError };
  UnixMillis at = 0;
  Level level = Level::kInfo;
  std::string source;  // "sandbox", "agent"
  std::string message;
  StringMap fields;
};

class SandboxLog {
 public:
  SandboxLog(const Sandboxes& sandboxes, const WallClock& clock)
      : sandboxes_(sandboxes), clock_(clock) {}

  // The time is now. Of a sandbox that is not there, nothing is kept.
  void add(const std::string& sandbox_id, SandboxLogLine line);
  // Oldest first.
  std::vector<SandboxLogLine> read(std::string_view sandbox_id) const;

 private:
  struct Lines {
    std::deque<SandboxLogLine> lines;
    std::size_t bytes = 0;
  };
  void forget_lost();

  const Sandboxes& sandboxes_;
  const WallClock& clock_;
  std::map<std::string, Lines, std::less<>> lines_;  // by sandbox
  std::size_t tidy_at_ = 64;
};

}  // namespace atl::control
