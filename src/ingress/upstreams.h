// Connections to ports inside sandboxes: sockets of the sandbox's own network namespace, so what
// listens on 127.0.0.1 only is reached as well. Connections that may be used again are kept for a
// moment, per runtime of a sandbox. Loop thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/fd.h"
#include "http/client_connection.h"
#include "io/reactor.h"
#include "tls/context.h"

namespace atl::ingress {

// A socket connected to a port on the loopback device of the sandbox, which runs. kUnavailable with
// the reason "port_closed" when nobody listens.
using Connect =
    std::function<Task<Fd>(std::string team_id, std::string sandbox_id, std::uint16_t port)>;

struct UpstreamKey {
  std::string team_id;
  std::string sandbox_id;
  std::int64_t generation = 0;
  std::uint16_t port = 0;
  bool secure = false;  // TLS, to whatever certificate
  auto operator<=>(const UpstreamKey&) const = default;
};

class Upstreams {
 public:
  // `tls` is for services that speak it themselves; null: none can.
  Upstreams(io::Reactor& reactor, Connect connect, const tls::Context* tls)
      : reactor_(reactor), connect_(std::move(connect)), tls_(tls) {}

  struct Taken {
    std::unique_ptr<http::ClientConnection> connection;
    bool reused = false;
  };
  Task<Taken> take(UpstreamKey key, bool fresh);
  // REQUIRES: the last answer was read to its end and the peer keeps the connection.
  void park(const UpstreamKey& key, std::unique_ptr<http::ClientConnection> connection);
  Instant now() const { return reactor_.now(); }

 private:
  static constexpr std::size_t kMaxParked = 256;
  static constexpr std::size_t kMaxParkedPerKey = 16;
  static constexpr std::chrono::seconds kMaxParkedTime{20};
  struct Parked {
    std::unique_ptr<http::ClientConnection> connection;
    Instant since;
  };
  void drop_old();

  io::Reactor& reactor_;
  Connect connect_;
  const tls::Context* tls_;
  std::map<UpstreamKey, std::deque<Parked>> parked_;
  std::size_t parked_count_ = 0;
};

}  // namespace atl::ingress
