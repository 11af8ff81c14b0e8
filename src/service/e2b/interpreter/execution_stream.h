// The answer to /execute: one JSON object a line, whole lines in every write.
//
// Two tasks write to it: output and results as they come, and a sign of life whenever nothing came
// for a while. The answer begins with its first line, so that what fails before any can still be
// answered with a status.
#pragma once

#include <string>

#include "base/clock.h"
#include "control/interpreter_result.h"
#include "guest/wire.h"
#include "http/server.h"
#include "service/native/utf8_joiner.h"

namespace atl::service::e2b::interpreter {

class ExecutionStream {
 public:
  ExecutionStream(http::Exchange& exchange, const WallClock& clock)
      : exchange_(exchange), clock_(clock) {}
  ExecutionStream(const ExecutionStream&) = delete;
  ExecutionStream& operator=(const ExecutionStream&) = delete;

  Task<> send_output(const guest::Output& output);
  Task<> send_result(control::RichResult result);
  // The last lines. What is still to be done is finish(), once nobody watches the client.
  Task<> send_end(const control::InterpreterResult& result);
  // Until cancelled.
  Task<> keep_alive();

 private:
  std::string output_line(std::string_view type, std::string text);
  Task<> send(std::string lines);

  http::Exchange& exchange_;
  const WallClock& clock_;
  native::Utf8Joiner standard_output_;
  native::Utf8Joiner standard_error_;
  bool busy_ = false;
  bool quiet_ = true;  // nothing was sent since keep_alive() looked
  Event free_;
};

}  // namespace atl::service::e2b::interpreter
