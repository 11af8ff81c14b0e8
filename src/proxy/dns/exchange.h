// One question to one server: over UDP from a port and with an id that nobody can guess, and over
// TCP when the answer did not fit. An answer to another question is not ours and is waited past.
#pragma once

#include "egress/dns_message.h"
#include "io/reactor.h"
#include "proxy/endpoint.h"

namespace atl::proxy::dns {

// The id of the question is chosen here.
Task<egress::DnsAnswer> ask_server(io::Reactor& reactor, Endpoint server,
                                   egress::DnsQuestion question);

// What a server said, if it is the answer to this question; sans-IO.
Result<egress::DnsAnswer> read_matching_answer(std::string_view message,
                                               const egress::DnsQuestion& question);

}  // namespace atl::proxy::dns
