// One piece of code in a REPL on a terminal: lines in, output up to the prompt out.
//
// With our own prompts the lines go in one by one, each when the one before it has been answered,
// so nothing has to be guessed from silence. Code that reads its standard input gets it from
// `input`, not from the lines after it.
#pragma once

#include <string>
#include <vector>

#include "control/capture.h"
#include "control/guest_client.h"
#include "control/interpreter_result.h"
#include "control/prompt_reader.h"
#include "control/repl_definition.h"

namespace atl::control {

// That a time limit of ours was reached, and not one of the guest's.
bool is_deadline(const Error& error);

class TerminalExecution {
 public:
  // `keep_output` false: somebody else takes it.
  TerminalExecution(CaptureBudget& budget, const ReplDefinition& definition, bool keep_output);
  TerminalExecution(const TerminalExecution&) = delete;
  TerminalExecution& operator=(const TerminalExecution&) = delete;

  // Until the code, or the REPL, has ended. May be called again after a deadline: it then only
  // reads on, and gives nothing more in.
  Task<> run(ProcessStream& stream, std::string code, OutputSink sink);
  Task<> read_on(ProcessStream& stream, OutputSink sink);
  // What could have been the beginning of a prompt, once nothing more is read.
  Task<> give_rest();
  // The REPL has started and waits.
  Task<> await_ready(ProcessStream& stream);

  bool done() const { return done_; }
  bool ended() const { return ended_; }                     // the REPL itself
  std::uint64_t end_offset() const { return end_offset_; }  // of what has been read
  InterpreterResult take();

 private:
  Task<> give(ProcessStream& stream, std::string text, std::size_t prompts);
  Task<> await_answer(ProcessStream& stream, std::size_t prompts);
  Task<> read_until_silent(ProcessStream& stream);
  Task<> take_event(ProcessStream::Event event);
  Task<> keep(std::string text, guest::OutputHeader header);
  bool answered(std::size_t prompts) const;

  const ReplDefinition& definition_;
  PromptReader reader_;
  Capture output_;
  const bool keep_output_;
  OutputSink sink_;
  InterpreterResult result_;
  std::uint64_t end_offset_ = 0;
  guest::Stream last_stream_ = guest::Stream::kPty;
  bool done_ = false;
  bool ended_ = false;
};

}  // namespace atl::control
