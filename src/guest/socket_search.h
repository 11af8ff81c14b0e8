// Who has a socket: the table of the kernel says its number, the descriptors of a process that it
// is one of them.
//
// The search runs in a forked worker and has bounds: a sandbox can have any number of sockets and
// processes, and the answer is for the audit alone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "guest/wire.h"

namespace atl::guest {

// A process of the table: it leads a session of its own.
struct Leader {
  pid_t pid = 0;
  std::string process_id;
};

struct SocketEntry {
  std::uint64_t inode = 0;
  uid_t uid = 0;
  bool listening = false;
};
// Those of a table such as /proc/net/tcp with this local port, connections before listeners.
std::vector<SocketEntry> sockets_with_port(std::string_view table, std::uint16_t port);

SocketHolder find_socket_holder(const FindSocketRequest& request,
                                const std::vector<Leader>& leaders);

// In a forked child of the agent. Answers and exits.
[[noreturn]] void run_socket_search(int socket, const FindSocketRequest& request,
                                    const std::vector<Leader>& leaders);

}  // namespace atl::guest
