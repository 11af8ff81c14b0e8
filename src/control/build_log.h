// What a build has to say, line by line, to whoever listens and whenever they come.
//
// A record is one JSON object. The newest kMaxBuildLogBytes are kept; a follower that comes too
// late is told how much it missed. Ends once, with the outcome. Loop thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/task.h"

namespace atl::control {

class BuildLog {
 public:
  void add(const Json& record);
  // {"type":"note","text":...}
  void note(std::string_view text);
  void end(const Result<>& outcome, Json last_record);

  std::size_t bytes() const { return bytes_; }
  bool ended() const { return outcome_.has_value(); }
  // REQUIRES: ended.
  const Result<>& outcome() const { return *outcome_; }

  // Records from number `from` on, each with a newline; moves `from`. Waits when there are none;
  // empty when it has ended and all were given out.
  Task<std::string> next(std::uint64_t& from);
  // What is there of at most `limit` records from number `from` on, without a newline. Waits for
  // nothing.
  std::vector<std::string> read(std::uint64_t from, std::size_t limit) const;

 private:
  void append(std::string line);

  std::deque<std::string> lines_;
  std::uint64_t first_ = 0;  // number of lines_.front()
  std::size_t bytes_ = 0;
  std::optional<Result<>> outcome_;
  Event changed_;
};

}  // namespace atl::control
