// Bytes with descriptors over unix sockets: whole datagrams, and parts of a stream.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace atl::io {

inline constexpr std::size_t kMaxPassedFds = 8;

struct Datagram {
  std::string bytes;    // empty: the peer closed
  std::vector<Fd> fds;  // close-on-exec
};

// Sends in one message. On a non-blocking socket that is full: kUnavailable with reason EAGAIN.
Result<> send_datagram(int socket, std::string_view bytes, const std::vector<int>& fds = {});
// Receives one message of at most `max_bytes`; a longer one is an error. Blocks if the socket does.
Result<Datagram> receive_datagram(int socket, std::size_t max_bytes);
// The same message again and again: it stays, and its descriptors are new ones each time.
Result<Datagram> look_at_datagram(int socket, std::size_t max_bytes);

// What is there of a stream of a stranger, 0 at its end, and the descriptor that came with it. More
// than one, or another one where `passed` is one, is an error; so is one that got lost
// (kDescriptorLost: we have too many open). Those it does not give are closed elsewhere. EAGAIN as
// above.
Result<std::size_t> receive_part(int socket, std::span<char> buffer, Fd& passed);
inline constexpr std::string_view kDescriptorLost = "descriptor_lost";

// Whether the other side of a unix socket can send descriptors, or gets EPERM. Those that lie in a
// socket unread are closed by whoever closes it. False: this kernel cannot refuse them.
bool let_descriptors_come(int socket, bool come);
bool may_descriptors_come(int socket);

}  // namespace atl::io
