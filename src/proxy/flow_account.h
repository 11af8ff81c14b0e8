// How a flow's record begins.
#pragma once

#include "proxy/sandbox_session.h"

namespace atl::proxy {

std::shared_ptr<FlowAccount> open_account(SandboxSession& session, egress::Transport transport,
                                          const Endpoint& source, const Endpoint& destination);
// Of the names that our resolver gave this address for, the latest that a rule allows; else the
// latest; empty when there is none.
std::string pinned_name(SandboxSession& session, const egress::Flow& flow);
// "tcp example.com:443", for whoever is asked about it.
std::string flow_title(const egress::Flow& flow);

// Reset at once and recorded: the limit of the "sandbox" or the "team" is reached.
void refuse_for_want_of_room(SandboxSession& session, Fd client, std::string_view whose);

// No rule wanted to know, but who reads the record may.
void note_contents(egress::FlowRecord& record, std::string_view bytes);

}  // namespace atl::proxy
