// A program of the operator that prints a credential: run as this process's own user, which may
// nothing, with an environment of its own, no input and no other descriptor. Killed with everything
// it started when its time is over or it prints too much. What it writes to stderr goes nowhere.
#pragma once

#include <string>
#include <vector>

#include "base/task.h"
#include "io/reactor.h"

namespace atl::control {

struct CredentialCommand {
  std::string program;                   // a path
  std::vector<std::string> environment;  // "NAME=value", all it gets beside PATH
  std::size_t max_output_bytes = 0;
};

// What it printed; the caller wipes it. The task ends it when it is cancelled.
Task<std::string> run_credential_command(io::Reactor& reactor, CredentialCommand command);

// Only the operator can have put something there: it and its programs are root's or ours, and
// nobody else writes to them.
Result<> check_command_directory(const std::string& path);

}  // namespace atl::control
