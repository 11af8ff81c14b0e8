// Which protocol a connection speaks, from the first bytes its client sends.
//
// Sans-IO and without state: all bytes so far go in each time (they are few: the caller keeps them
// anyway to send them on). Only what a client says first can be seen; a protocol in which the
// server speaks first (SMTP, MySQL) stays unknown when the caller's patience ends.
#pragma once

#include <optional>
#include <string_view>

#include "egress/client_hello.h"
#include "egress/policy.h"

namespace atl::egress {

inline constexpr std::size_t kMaxPeekBytes = kMaxClientHelloBytes + 1024;

struct Classified {
  AppProtocol protocol = AppProtocol::kUnknown;
  bool http2 = false;                // HTTP/2 with prior knowledge
  std::optional<ClientHello> hello;  // of TLS
};

// Nothing when more bytes could tell more; kInvalidArgument when the bytes begin as a protocol and
// break its rules, which nothing honest does.
Result<std::optional<Classified>> classify(std::string_view bytes);

}  // namespace atl::egress
