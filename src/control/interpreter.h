// Interpreters: contexts that keep state and run code piece by piece.
//
// An interpreter is an ordinary context whose program is a driver of ours (interpreters/). It is
// told what to run over its own channel and says there what came of it, so nothing is read from
// prompts, and stdout and stderr stay what the code printed. One execution at a time per context;
// others wait in order. A language without a driver, or one a client defines, runs on a terminal
// instead (repl_definition.h, terminal_execution.h). An interpreter that has ended by itself or by
// a signal is started again by the next execution, which says so. Nothing about an interpreter
// lives only here: after a restart of this process the next execution finds it in the guest's
// table. Loop thread only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "control/contexts.h"
#include "control/interpreter_copy.h"
#include "control/interpreter_result.h"
#include "control/languages.h"
#include "control/repl_definition.h"
#include "control/terminal_execution.h"
#include "control/transcript.h"

namespace atl::control {

struct InterpreterRequest {
  std::string id;  // of the context; empty: a new one
  std::string alias = "python";
  std::optional<ReplConfig> config;  // instead of an alias
  std::string cwd;
  std::string user;
  StringMap env;
  std::optional<guest::PtySize> pty;  // a driver has no terminal and is told as LINES and COLUMNS
  std::uint64_t ttl_ms = 0;
  std::uint64_t idle_timeout_ms = 0;
  bool preloaded = true;  // may be one that was started before (control/preloaded.h)
};

// Takes what is displayed, and the value, as they come.
using ResultSink = std::function<Task<>(RichResult)>;

// One piece of code.
struct CodeRequest {
  std::string code;
  std::uint64_t timeout_ms = 0;            // 0: as long as it takes
  StringMap env;                           // while it runs, over what the interpreter has
  std::optional<InterpreterRequest> make;  // first, when there is no such context
  bool interrupt_when_cancelled = false;   // otherwise the code goes on
  OutputSink output;                       // the result has no output then
  ResultSink results;                      // and no rich results
};

// kInvalidArgument: there is no such interpreter.
Result<> validate_alias(std::string_view alias);
// Of a listed process that is an interpreter.
std::optional<std::string> interpreter_alias(const guest::ProcessInfo& process);

class PreloadedInterpreters;
struct PreloadReport;
struct TemplateDefaults;

class Interpreters {
 public:
  explicit Interpreters(Contexts& contexts) : contexts_(contexts) {}
  Interpreters(const Interpreters&) = delete;
  Interpreters& operator=(const Interpreters&) = delete;

  // Without them every interpreter starts anew. They outlive this.
  void use(PreloadedInterpreters& preloaded) { preloaded_ = &preloaded; }

  // How it stands with the one that sandboxes of a template begin with.
  PreloadReport preload_report(const std::vector<std::string>& layers,
                               const TemplateDefaults& defaults) const;

  // Returns when the interpreter is ready.
  Task<Context> create(SandboxRef sandbox, InterpreterRequest request);
  // Runs the code and waits for its end. When cancelled before that, the next execution waits for
  // it, so that it gets none of its output.
  Task<InterpreterResult> execute(SandboxRef sandbox, std::string id, CodeRequest request);
  // Hands the code over and returns. To a REPL on a terminal: the bytes as they are.
  Task<> send(SandboxRef sandbox, std::string id, std::string code);
  // Ends what runs; state stays.
  Task<> interrupt(SandboxRef sandbox, std::string id);
  // A new process under the same id, ready.
  Task<Context> restart(SandboxRef sandbox, std::string id);
  // Nobody executes in the context while the answer lives. kUnavailable: code runs in it.
  Task<std::shared_ptr<void>> hold(SandboxRef sandbox, std::string id, Duration wait);
  // What it is now, as an image of at most so many bytes. It goes on meanwhile. REQUIRES: held.
  Task<CopiedInterpreter> copy(SandboxRef sandbox, std::string id, std::uint64_t max_bytes);
  // Makes a copy go on in a sandbox with the same files, under the same id. Ready when it returns.
  Task<> bring(SandboxRef sandbox, std::shared_ptr<const CopiedInterpreter> copy);
  // Of any context; an interpreter's next code sees it.
  Task<> resize(SandboxRef sandbox, std::string id, guest::PtySize size);

 private:
  // Who may execute in one context, in order.
  struct Line {
    bool busy = false;
    std::deque<Event*> waiting;
  };
  class Turn;
  // An execution that nobody saw the end of.
  struct Unfinished {
    std::string execution;
    std::uint64_t offset = 0;     // its end comes after this
    bool owes_interrupt = false;  // its time was over, and the guest did not take the interrupt
  };
  struct Followed {
    Outcome outcome = Outcome::kCompleted;
    bool owes_interrupt = false;
  };

  Task<std::unique_ptr<Turn>> take_turn(std::string key);
  // False: the deadline came first.
  Task<bool> finish_earlier(const SandboxRef& sandbox, const std::string& id, Instant deadline);
  void note_unfinished(std::string key, Unfinished unfinished);
  // It runs and has a driver.
  static Result<> check_driver(const guest::ProcessInfo& process);
  Task<> revive(SandboxRef sandbox, const guest::ProcessInfo& process);
  Task<InterpreterResult> execute_now(SandboxRef sandbox, std::string id,
                                      const CodeRequest& request, Instant deadline);
  // Follows the context; when it has ended it is started again, and when there is none and the
  // request says so, it is made.
  Task<DescribedStream> attach(SandboxRef sandbox, std::string id, const CodeRequest& request,
                               const std::string& eager, bool& restarts);
  // `line` is what is still to be sent.
  // `client`: of the guest that runs the code. Nothing asks for the sandbox again, so one that is
  // paused meanwhile stays so.
  Task<InterpreterResult> execute_by_driver(SandboxRef sandbox, GuestClient client,
                                            DescribedStream attached, std::string execution,
                                            std::string line, const CodeRequest& request,
                                            Instant deadline);
  Task<Followed> follow(GuestClient client, const DescribedStream& attached, Transcript& transcript,
                        const CodeRequest& request, Instant deadline);
  // Null when there is none that fits.
  Task<std::unique_ptr<Context>> create_preloaded(SandboxRef sandbox, const Language& language,
                                                  const ContextRequest& request);

  // interpreter_terminal.cpp
  static Task<> interrupt_code(GuestClient client, const guest::ProcessInfo& process);
  // Of code whose client has gone. True: the next execution must interrupt it once more.
  static Task<bool> interrupt_abandoned(GuestClient client, const guest::ProcessInfo& process);
  Task<Context> create_on_terminal(SandboxRef sandbox, ReplDefinition definition,
                                   ContextRequest request);
  Task<> await_ready_on_terminal(ProcessStream& stream, const ReplDefinition& definition);
  Task<InterpreterResult> execute_on_terminal(SandboxRef sandbox, GuestClient client,
                                              DescribedStream attached,
                                              const ReplDefinition& definition,
                                              const CodeRequest& request, Instant deadline);
  Task<Followed> follow_on_terminal(GuestClient client, const DescribedStream& attached,
                                    TerminalExecution& execution, const CodeRequest& request,
                                    Instant deadline);
  Task<> read_to_prompt(ProcessStream& stream, const ReplDefinition& definition);

  Contexts& contexts_;
  PreloadedInterpreters* preloaded_ = nullptr;
  CaptureBudget budget_;
  std::map<std::string, Line, std::less<>> lines_;
  std::map<std::string, Unfinished, std::less<>> unfinished_;
};

}  // namespace atl::control
