// A flow as a row of the flow file, and back. What is asked for by value has a column; the rest is
// one JSON document.
#pragma once

#include "egress/boundary.h"
#include "store/flow_file.h"

namespace atl::control {

store::FlowRow flow_row(const egress::FlowRecord& flow);
egress::FlowRecord flow_record(const store::FlowRow& row);

}  // namespace atl::control
