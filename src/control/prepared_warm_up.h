// The first command of a cell costs twice a later one: nothing of its file tree has been looked up
// yet, and its agent has never started a process. So each prepared cell has run a command that does
// nothing before anybody claims it.
#pragma once

#include <string>

#include "base/task.h"
#include "io/reactor.h"

namespace atl::control {

// Fails when the agent does not answer; a tree without the command is fine.
Task<> warm_up_cell(io::Reactor& reactor, std::string guest_socket);

}  // namespace atl::control
