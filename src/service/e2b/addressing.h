// Whom a request of an E2B client is for.
//
//   headers      E2b-Sandbox-Id and E2b-Sandbox-Port, both or none
//   host name    {port}-{id}.<domain>; api.<domain> is the control plane, sandbox.<domain> needs
//                the headers
//   signature    /files?...&signature=... without any of them: whose it is, the signature says
//   path         everything the control plane has, and what is asked for by an E2B client
#pragma once

#include <cstdint>
#include <string>

#include "control/public_names.h"
#include "http/message.h"

namespace atl::service::e2b {

struct Address {
  enum class Kind : std::uint8_t {
    kNone,     // not E2B's
    kControl,  // the control plane
    kSandbox,  // a port of a sandbox
    kSigned,   // a file of the sandbox whose signature it has
    kBad,      // E2B's, but nobody's
  };
  Kind kind = Kind::kNone;
  std::string sandbox_id;
  std::uint16_t port = 0;
  bool by_host = false;  // of a port: named by the host alone
};

Address find_address(const control::PublicNames& names, const http::Request& request);

// "e2b-js-sdk/2.51.0", from the User-Agent; empty: no E2B client, or an unusable name.
std::string client_version(const http::Headers& headers);

}  // namespace atl::service::e2b
