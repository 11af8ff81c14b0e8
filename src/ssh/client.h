// An SSH client for one connection: key exchange, the server verified, login by key.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "io/reactor.h"
#include "ssh/channel.h"
#include "ssh/known_hosts.h"
#include "ssh/limits.h"

namespace atl::ssh {

struct ClientOptions {
  std::string host;  // under which known hosts are looked up
  std::uint16_t port = 22;
  std::string user;
  std::string private_key;
  std::string passphrase;
  KnownHosts known_hosts;
  Duration login_time = kDefaultLoginTime;
};

class Client {
 public:
  // Logged in when it returns. `connection` is a non-blocking socket. Its error never holds the
  // key. kPermissionDenied: the server is not the one we know. kUnauthenticated: it does not take
  // the key.
  static Task<std::unique_ptr<Client>> connect(io::Reactor& reactor, Fd connection,
                                               ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Must be running while channels are used; ends, with an error, when the connection does.
  Task<> run();
  Task<std::unique_ptr<Channel>> open_session();

 private:
  explicit Client(std::unique_ptr<Link> link);
  std::unique_ptr<Link> link_;
};

}  // namespace atl::ssh
