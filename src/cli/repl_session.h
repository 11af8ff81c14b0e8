// ReplSession: an interpreter in a sandbox that runs one piece of code after the other.
//
// Each piece has a WebSocket of its own that begins where the last one ended, so waiting at the
// prompt costs nothing and a restarted server is not noticed there. When the connection breaks
// under a running piece it is made again; the interpreter runs pieces in order, so the end of an
// empty one that is sent then is the end of the one before. Only its value is lost. Languages
// without a driver run on a terminal in the sandbox; their output comes when a piece has ended.
#pragma once

#include <memory>
#include <string>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/descriptor_gate.h"
#include "cli/event_stream.h"
#include "cli/rich_result.h"
#include "http/websocket.h"

namespace atl::cli {

// How a piece of code ended.
struct CellEnd {
  std::string status;             // "ok", "error" or "interrupted"
  std::optional<ExitEvent> exit;  // the interpreter itself has ended
};

class ReplSession {
 public:
  struct Target {
    std::string sandbox_id;
    std::string context_id;
    std::string language;
    std::string image_directory;
  };
  ReplSession(CommandContext& context, Target target);
  Result<> open_outputs();

  // Shows what the code prints, its value or its error, as they come.
  Task<CellEnd> run(std::string code);
  // Ends the code that runs; its state stays.
  Task<> interrupt();
  bool running() const { return running_; }

 private:
  Task<CellEnd> run_on_terminal(std::string code);
  Task<std::optional<CellEnd>> run_once(std::string code);  // nullopt: the connection broke
  Task<std::optional<CellEnd>> take_event(const Json& event);
  Task<> take_output(std::string_view frame);

  CommandContext& context_;
  Target target_;
  Api api_;
  Api control_;
  ResultPrinter printer_;
  std::unique_ptr<SharedWriter> output_;
  std::unique_ptr<SharedWriter> error_;
  std::uint64_t next_offset_ = 0;
  bool running_ = false;
};

}  // namespace atl::cli
