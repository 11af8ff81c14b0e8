// ShellSession: a terminal context in a sandbox on the person's own terminal.
//
// Output comes over a WebSocket with the offset of every byte, so a connection that breaks (the
// server is restarted, the network goes away) is made again at the right byte: nothing is shown
// twice or lost. Keys that were typed meanwhile wait and follow. The terminal is raw while the
// session runs; its size is passed on whenever it changes.
#pragma once

#include <memory>
#include <string>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/descriptor_gate.h"
#include "cli/escape_filter.h"
#include "cli/event_stream.h"
#include "cli/terminal.h"
#include "http/websocket.h"

namespace atl::cli {

class ShellSession {
 public:
  struct Target {
    std::string sandbox_id;
    std::string context_id;
    bool escapes = true;
  };
  ShellSession(CommandContext& context, Terminal& terminal, Target target);

  // How it ended; nullopt: the person detached, the shell goes on.
  Task<std::optional<ExitEvent>> run();

 private:
  Task<> follow();
  Task<bool> follow_once();  // true: the shell has ended
  Task<> take_output(std::string_view frame);
  Task<> forward_keys(CancelState& leave);
  Task<> act(EscapeFilter::Action action, CancelState& leave);
  Task<> watch_window();
  Task<> send_pending();
  Task<> send_keys(std::string keys);
  Task<> send_size();
  void drop_socket(const std::shared_ptr<http::WebSocket>& socket);

  CommandContext& context_;
  Terminal& terminal_;
  Target target_;
  Api api_;
  EscapeFilter filter_;
  std::unique_ptr<SharedReader> keys_;
  std::unique_ptr<SharedWriter> screen_;
  std::shared_ptr<http::WebSocket> socket_;  // shared: a send may outlive its connection
  Event connected_;
  std::string pending_;  // keys that nobody took yet; reading goes on, so that ~. is always heard
  Event typed_;
  Event taken_;
  std::uint64_t next_offset_ = 0;
  bool progressed_ = false;  // since the last connect
  bool detached_ = false;
  ExitEvent exit_;
};

}  // namespace atl::cli
