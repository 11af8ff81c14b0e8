// The entrance of this room: a connection that is plain HTTP/1, HTTP/2 with prior knowledge, or
// TLS to be opened, served until it ends. A ConnectionHandler.
#pragma once

#include "proxy/connection.h"

namespace atl::proxy::http {

Task<> serve(Surroundings& surroundings, Connection connection);

}  // namespace atl::proxy::http
