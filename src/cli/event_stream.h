// The output of a process as it comes from the API: newline-delimited JSON.
//
// Sans-IO: bytes in, events out. Lines arrive split at any byte and may be of any sort; a line that
// is longer than the limit or is no event is an error, an event of an unknown type is skipped, so
// that a newer server may say more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace atl::cli {

struct OutputEvent {
  bool to_error = false;    // standard error; a terminal's output counts as standard output
  bool is_channel = false;  // what an interpreter's driver says: not for people
  std::string data;
  std::uint64_t offset = 0;  // of the first byte, over all streams of the process
};

struct ExitEvent {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool timed_out = false;
  std::string state;  // "stopped", "killed", "crashed", …

  // What a shell would say: the code, 128 + signal, 124 after a timeout.
  int status() const;
};

using ContextEvent = std::variant<OutputEvent, ExitEvent>;

// The members of an exit event, or of the last frame of a WebSocket.
ExitEvent decode_exit(const Json& json);
// nullopt: an event of a type we do not know.
Result<std::optional<ContextEvent>> decode_event(const Json& json);

// "KILL", "SIGKILL", "9" -> 9
std::optional<int> parse_signal(std::string_view text);
std::string signal_name(int signal);  // "SIGKILL"

class EventDecoder {
 public:
  // Events that became complete with these bytes, in order.
  Result<std::vector<ContextEvent>> feed(std::string_view bytes);
  // Ok when nothing incomplete is left.
  bool at_line_start() const { return partial_.empty(); }

 private:
  Result<> take_line(std::string_view line, std::vector<ContextEvent>& events);
  std::string partial_;
};

}  // namespace atl::cli
