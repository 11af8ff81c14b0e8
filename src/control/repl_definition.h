// REPLs on a terminal: what to start, and how to see that it waits for more.
//
// The languages without a driver (languages.h) and those a client defines itself run as they are,
// on a terminal that neither echoes nor edits. The builtin ones print a prompt of ours that holds a
// random mark, once for every line they take: `mark> ` when they wait for something new, `mark`
// with another character when they want the rest of what they have. So the end of each line is
// known exactly, whatever the code prints. A definition of the client's ends with its token and
// then silence, or with silence alone, as the contract has it.
//
// A definition is kept as the label of its process in the guest's table, so any restart of ours
// finds it again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "control/sandboxes.h"
#include "guest/wire.h"

namespace atl::control {

enum class Ready : std::uint8_t {
  kPrompts,  // every line is answered by a prompt with our mark
  kToken,    // the output ends with the token and stays so for a moment
  kSilence,  // nothing was printed for a moment
};

struct ReplCandidate {
  std::string program;
  std::vector<std::string> arguments;
};

struct ReplDefinition {
  std::string alias;
  std::vector<ReplCandidate> candidates;  // the first one that the image has
  StringMap env;
  Ready ready = Ready::kPrompts;
  std::string token;            // the mark, or the token
  bool own_token = false;       // made by us: nothing else prints it
  std::uint64_t quiet_ms = 50;  // the moment
  std::string setup;            // the first line it is given
  std::string package;          // that has the program, in Debian
};

// What a client may say about a REPL of its own.
struct ReplConfig {
  struct Variable {
    std::string name;
    std::string value;
    std::string value_from;  // "term", "prompt", or empty
  };
  std::string name;
  std::vector<ReplCandidate> candidates;
  std::vector<Variable> env;
  std::string default_term;
  std::string custom_prompt;
  std::string ready_mode;  // "prompt_token", "startup_delay", or empty
  std::string ready_token;
  std::optional<std::uint64_t> startup_delay_ms;
};

// nullopt: there is no such builtin REPL.
std::optional<ReplDefinition> find_repl(std::string_view alias);
// With a random mark each time.
Result<ReplDefinition> define_repl(ReplConfig config);

std::string repl_label(const ReplDefinition& definition);
// Without candidates and package. nullopt: the process is something else.
std::optional<ReplDefinition> repl_of(const guest::ProcessInfo& process);

}  // namespace atl::control
