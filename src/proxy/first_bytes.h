// Reading as much of a connection as it takes to know what it speaks and to whom.
//
// Bounded in bytes and time: who does not finish what it began is refused, who says nothing is
// left to the caller (its server may speak first).
#pragma once

#include "egress/classifier.h"
#include "proxy/allowance.h"
#include "proxy/socket.h"

namespace atl::proxy {

inline constexpr std::size_t kMaxFirstHeadBytes = std::size_t{64} << 10;

struct FirstBytes {
  std::string bytes;
  egress::Classified contents;
  bool known = false;  // the client spoke
  bool ended = false;  // it closed its side without a word
  // Of plain HTTP/1: the one Host, as a normal name; empty when it is an address or unusable.
  std::string http_host;
};

// Waits at most `silence` for the first byte, then kFirstBytesTime for the rest.
Task<> look_at(Socket& socket, Meter& meter, Duration silence, FirstBytes& first);

// The name in the only Host header of a request's head; nothing when there is none.
std::string host_of_head(std::string_view head);

// The name it says itself; nothing when its protocol says none. TLS that names nobody has an empty
// one, because its server may be anybody's at that address.
Result<std::optional<std::string>> said_name(const FirstBytes& first);

}  // namespace atl::proxy
