// The child's last steps when its cell is filled from a dump: what criu needs, then criu itself.
//
// Each function is one step of cell_init and returns 0 or an errno; see cell_plan.h for what they
// may not do.
#pragma once

#include "runtime/namespaces/cell_root.h"

namespace atl::runtime::namespaces {

int write_restore_settings(CellState& state);
int enter_time_namespace(CellState& state);
int arrange_restore_descriptors(CellState& state);
int wait_for_go(CellState& state);
int start_criu(CellState& state);

// Descriptors 0 to 2, also of a guest that starts.
int point_streams_at_null();

}  // namespace atl::runtime::namespaces
