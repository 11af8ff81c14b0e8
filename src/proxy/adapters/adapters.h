// Protocols whose greeting carries a credential, each a ConnectionHandler of the proxy. The client
// inside knows no secret, or a wrong one; what goes upstream is the stored one.
//
// A credential that is needed and cannot be had refuses the connection, in the protocol's own words
// where it has some, unless its rule says fail-open: then everything passes as it is.
#pragma once

#include "proxy/connection.h"

namespace atl::proxy::adapters {

Task<> serve_ssh(Surroundings& surroundings, Connection connection);
Task<> serve_redis(Surroundings& surroundings, Connection connection);
Task<> serve_postgres(Surroundings& surroundings, Connection connection);
Task<> serve_mqtt(Surroundings& surroundings, Connection connection);
Task<> serve_socks5(Surroundings& surroundings, Connection connection);

}  // namespace atl::proxy::adapters
