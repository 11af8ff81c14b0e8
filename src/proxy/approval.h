// Asking somebody about a flow before it goes on.
#pragma once

#include "egress/boundary.h"
#include "proxy/judge.h"
#include "proxy/socket.h"

namespace atl::proxy {

egress::ApprovalQuestion question_about(const egress::FlowRecord& record, const Verdict& verdict,
                                        const egress::Flow& flow);

// The question is withdrawn when the client hangs up: kUnavailable. `end_is_hangup`: the client's
// protocol does not end its side before the answer; of others only a reset says that it is gone.
Task<bool> ask_for(Socket& client, bool end_is_hangup, egress::Approvals& approvals,
                   egress::ApprovalQuestion question);

}  // namespace atl::proxy
