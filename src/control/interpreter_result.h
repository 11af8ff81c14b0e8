// What running code in an interpreter gave, for every dialect to render as it likes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "guest/wire.h"

namespace atl::control {

// How an execution ended, as seen from outside.
enum class Outcome : std::uint8_t {
  kCompleted,     // the interpreter finished the code, or ended by itself
  kTimedOut,      // interrupted at its deadline; what it printed before is there
  kKilled,        // a signal ended the interpreter
  kLost,          // the connection broke; the code may still run, the context can be read again
  kNeverStarted,  // its turn did not come before the deadline
};
std::string_view outcome_name(Outcome outcome);  // "timed_out"

// Of the code itself.
enum class ExecutionStatus : std::uint8_t {
  kOk,
  kError,
  kInterrupted,
  kIncomplete,  // a REPL on a terminal waits for the rest of it
};
std::string_view execution_status_name(ExecutionStatus status);

struct RichResult {
  Json data;             // MIME type -> text, base64 or (application/json) a value
  bool is_main = false;  // the value of the last expression; otherwise something displayed
};

struct ExecutionError {
  std::string name;
  std::string value;
  std::string traceback;
};

struct InterpreterResult {
  Outcome outcome = Outcome::kCompleted;
  ExecutionStatus status = ExecutionStatus::kOk;
  std::string standard_output;
  std::string standard_error;
  std::string combined;  // both in the order they were written
  bool truncated = false;
  std::vector<RichResult> results;
  std::optional<ExecutionError> error;
  std::optional<std::uint32_t> exit_code;  // of a shell's last command, or of an interpreter's end
  std::uint32_t signal = 0;                // with kKilled
  bool running = true;                     // the interpreter is still there
  // How many the interpreter has had, with this one; a REPL on a terminal does not count.
  std::optional<std::uint64_t> execution_count;
  bool restarted = false;  // it had ended and was started again for this code
};

// The interpreter itself has ended.
void end_by(InterpreterResult& result, const guest::ExitStatus& exit);

}  // namespace atl::control
