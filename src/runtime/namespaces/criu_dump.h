// A dump, from outside: the node's criu reads the processes of a cell that stands still.
//
// The dangerous half: a privileged program stops hostile processes and runs code in them. It gets
// the capabilities that takes and nothing else, writes where only root can read, and never ends a
// process: whoever wanted the dump does that, after it is whole.
#pragma once

#include "runtime/namespaces/criu_tools.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// Asks the guest to close its connections and waits until it has. REQUIRES: the cell moves.
Result<> close_connections(const DumpSpec& spec);

// `freezer` is the cell's cgroup. REQUIRES: the cell is frozen; it is afterwards too.
Result<std::uint64_t> dump_cell(const CriuTools& tools, const DumpSpec& spec,
                                const std::string& freezer);

}  // namespace atl::runtime::namespaces
