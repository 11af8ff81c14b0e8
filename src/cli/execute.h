// One invocation, from arguments to exit status, with everything it touches passed in. cli::main()
// is this with the real console; tests use pipes and a server of their own.
#pragma once

#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/console.h"
#include "cli/endpoint.h"
#include "io/reactor.h"

namespace atl::cli {

struct World {
  const Environment& environment;
  const Console& console;
  const EnvLookup& lookup;
};

// Never fails: errors have been reported when it ends. Blocks SIGINT, SIGTERM and SIGHUP.
Task<int> execute(io::Reactor& reactor, const World& world, std::vector<std::string> arguments);

}  // namespace atl::cli
