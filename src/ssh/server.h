// An SSH server for one connection: key exchange, login by public key, channels.
//
// What a login may do is the handler's business; this side knows the protocol. Agent, X11 and
// remote forwarding are refused, and so is every way to log in but by key (or by nothing, when the
// handler says so).
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "io/reactor.h"
#include "io/stream.h"
#include "ssh/channel.h"
#include "ssh/limits.h"

namespace atl::ssh {

// Of one connection; outlives it.
class ServerHandler {
 public:
  virtual ~ServerHandler() = default;
  // Whether this key may log in. Asked when it is offered and again when its owner has proved to
  // have it: only logged_in() says that somebody is here.
  virtual bool let_in(std::string_view user, std::string_view key_blob) = 0;
  virtual bool let_in_without_key(std::string_view) { return false; }
  virtual void logged_in(std::string_view user) = 0;
  // Serves a session channel until it returns; the channel is closed then. Its error is logged.
  virtual Task<> serve_session(Channel& channel) = 0;
  // For `ssh -L`: refused unless somebody says where to.
  virtual Task<std::unique_ptr<io::Stream>> connect(std::string host, std::uint16_t port);
};

struct ServerOptions {
  std::string host_key;  // private, as make_host_key() makes it
  Duration login_time = kDefaultLoginTime;
};

// Until the connection is over. `connection` is a non-blocking socket.
Task<> serve(io::Reactor& reactor, Fd connection, ServerOptions options, ServerHandler& handler);

}  // namespace atl::ssh
