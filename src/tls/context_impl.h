// Private to this room: what a Context holds.
#pragma once

#include "tls/context.h"
#include "tls/openssl.h"

namespace atl::tls {

struct Context::Impl {
  SslContextPtr context;
  std::string protocols;  // ALPN wire form; the server's selection callback reads it
  bool insists = false;
};

}  // namespace atl::tls
