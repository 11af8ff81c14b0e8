// AttachedProcess: one command in a sandbox with our standard streams tied to its own.
//
// Starts a context, follows its output from the first byte to its exit, forwards our input, passes
// our first signal on. The output stream is resumed at the right byte when its connection breaks
// (the server may be restarted under a running command). A finished context is deleted, so that
// commands leave nothing behind in the sandbox.
#pragma once

#include <memory>
#include <string>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/descriptor_gate.h"
#include "cli/event_stream.h"
#include "cli/interrupts.h"
#include "cli/options.h"

namespace atl::cli {

struct ProcessResult {
  ExitEvent exit;
  std::string output;  // captured with -o json, else empty
  std::string error;
  bool truncated = false;
};

// The body of POST …/contexts.
Json context_body(const ProcessOptions& options, bool forward_input);
// Whether standard input shall be sent on: asked for, or it is a pipe, a socket or a file.
bool wants_input(const ProcessOptions& options, int input_fd);

class AttachedProcess {
 public:
  // `keep_context`: the sandbox is deleted anyway, so the context need not be.
  struct Options {
    std::string sandbox_id;
    const ProcessOptions& process;
    bool keep_context = false;
  };
  AttachedProcess(CommandContext& context, Interrupts& interrupts, Options options);

  Task<ProcessResult> run();

 private:
  Task<> start(bool forward_input);
  Task<> follow();
  Task<bool> follow_once();  // true: the process has ended
  Task<> take_output(OutputEvent event);
  Task<> forward_input();
  Task<> send_input(std::string_view bytes, bool end);
  Task<> forget();
  void capture(std::string& into, std::string_view bytes);

  CommandContext& context_;
  Interrupts& interrupts_;
  Options options_;
  Api control_;
  Api stream_;
  Api input_;
  std::string context_id_;
  std::uint64_t next_offset_ = 0;
  bool progressed_ = false;  // since the last (re)connect
  std::unique_ptr<SharedWriter> output_;
  std::unique_ptr<SharedWriter> error_;
  ProcessResult result_;
};

// What run and exec say at the end: with -o json one document on standard output. The status.
int conclude(CommandContext& context, const std::string& sandbox_id, const ProcessResult& result);

}  // namespace atl::cli
