// The first moment of a connection on a TLS port.
#pragma once

#include <memory>

#include "io/stream.h"
#include "tls/context.h"

namespace atl::http {

// Completes the handshake. A client that speaks plain HTTP is told so, in plain HTTP.
Task<std::unique_ptr<io::Stream>> secure(std::unique_ptr<io::FdStream> stream,
                                         const tls::Context& context);

}  // namespace atl::http
