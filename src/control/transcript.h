// The output of one execution, sorted: streams, results, error, end.
//
// Drivers speak JSON lines on a channel that every program in the sandbox can write to. So a line
// that is too long, no JSON, of an unknown kind or about another execution is passed over; nothing
// here fails and nothing grows without bound.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/capture.h"
#include "control/interpreter_result.h"
#include "guest/wire.h"

namespace atl::control {

// Splits the bytes of a channel into lines of at most `max_bytes`; longer ones are skipped.
class ChannelLines {
 public:
  explicit ChannelLines(std::size_t max_bytes = kMaxChannelLineBytes) : max_bytes_(max_bytes) {}
  void append(std::string_view bytes);
  // The next whole line without its newline.
  std::optional<std::string> next();
  bool skipped() const { return skipped_; }

 private:
  const std::size_t max_bytes_;
  std::string pending_;
  std::size_t searched_ = 0;
  bool skipping_ = false;
  bool skipped_ = false;
};

struct ChannelMessage {
  std::string op;
  std::string id;
  Json body;
};
// nullopt: not a message.
std::optional<ChannelMessage> parse_channel_message(std::string_view line);

class Transcript {
 public:
  // `keep_output` false: somebody else takes it, only what comes of the code is kept.
  Transcript(CaptureBudget& budget, std::string id, bool keep_output = true);
  ~Transcript() { release_results(); }
  Transcript(const Transcript&) = delete;
  Transcript& operator=(const Transcript&) = delete;

  void add(const guest::Output& output);
  bool done() const { return done_; }
  std::uint64_t end_offset() const { return end_offset_; }  // of what has been added
  void end_by(const guest::ExitStatus& exit);               // the interpreter itself has ended
  // The results that have come since the last call, which take() then does not have.
  std::vector<RichResult> take_results();
  // What there is; the outcome is the caller's to decide except after end_by().
  InterpreterResult take();

 private:
  void handle(ChannelMessage message, std::size_t bytes);
  void release_results();

  CaptureBudget& budget_;
  const std::string id_;
  const bool keep_output_;
  Capture standard_output_;
  Capture standard_error_;
  Capture combined_;
  ChannelLines lines_;
  InterpreterResult result_;
  std::size_t result_bytes_ = 0;
  std::uint64_t end_offset_ = 0;
  bool done_ = false;
};

}  // namespace atl::control
