#include "proxy/machinery.h"

namespace atl::proxy {

const ConnectionHandler& handler_of(const Handlers& handlers, Handling handling) {
  switch (handling) {
    case Handling::kSsh:
      return handlers.ssh;
    case Handling::kRedis:
      return handlers.redis;
    case Handling::kPostgres:
      return handlers.postgres;
    case Handling::kMqtt:
      return handlers.mqtt;
    case Handling::kSocks5:
      return handlers.socks5;
    case Handling::kHttp:
    case Handling::kRelay:
      break;
  }
  return handlers.http;
}

}  // namespace atl::proxy
