// Output of a REPL on a terminal, without its prompts.
//
// Pieces come as the terminal gives them, so a prompt may be cut anywhere: what could be the
// beginning of one is kept back until it is decided. Bytes in, text and facts out; no I/O.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "control/repl_definition.h"

namespace atl::control {

class PromptReader {
 public:
  PromptReader(Ready ready, std::string token);

  // What of the output is no prompt.
  std::string add(std::string_view bytes);
  // What was kept back and is no prompt after all: nothing more comes.
  std::string finish();

  std::size_t prompts() const { return prompts_; }  // so far
  bool at_prompt() const { return at_prompt_; }     // the last thing it printed
  bool wants_more() const { return wants_more_; }   // the last prompt asked for the rest of a line

 private:
  std::string add_marked();
  std::string add_token();

  const Ready ready_;
  const std::string token_;
  std::string pending_;
  std::size_t prompts_ = 0;
  bool at_prompt_ = false;
  bool wants_more_ = false;
  bool line_start_ = true;  // of what follows the text given out so far
};

}  // namespace atl::control
