// Connections of restored processes whose other end was not restored with them: to the world, to a
// service of the API, to whoever else was outside. Nobody may go on with those but the one they
// were dumped from, and a program that only waits for an answer would wait forever.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/error.h"

struct inet_diag_msg;

namespace atl::runtime::namespaces {

// Those without their other end among them. (Indexes.)
std::vector<std::size_t> find_lost(std::span<const inet_diag_msg> connections);

// Aborts them in the network of a process that is not running yet; returns how many there were. A
// kernel that cannot (CONFIG_INET_DIAG_DESTROY) leaves them to their programs' next word, which
// nobody answers but with a reset.
Result<std::size_t> abort_lost_connections(int pidfd);

}  // namespace atl::runtime::namespaces
