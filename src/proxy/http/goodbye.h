// The orderly end of a stream, so that its peer can tell it from one that was cut.
#pragma once

#include "io/stream.h"

namespace atl::proxy::http {

// Nothing more comes; with TLS's goodbye before it. Waits a moment at most.
Task<> say_goodbye(io::Stream& stream);

}  // namespace atl::proxy::http
