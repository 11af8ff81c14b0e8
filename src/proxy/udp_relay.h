// Datagrams of a sandbox: associations between a port inside and an address outside.
//
// The first datagram is judged as a flow; what is allowed gets a socket on either side, and
// whatever comes on one is sent on the other until both are silent for a while. The socket inside
// is bound to the address that the sandbox wrote to, so that answers come from there, and connected
// to its sender, so that the kernel gives it what follows. What is refused is dropped and
// remembered for a moment, so that a stream of datagrams is one record.
#pragma once

#include <deque>
#include <map>

#include "proxy/datagram.h"
#include "proxy/sandbox_session.h"

namespace atl::proxy {

inline constexpr std::size_t kMaxAssociations = 256;
inline constexpr std::size_t kMaxRefusedAssociations = 1024;
inline constexpr std::size_t kMaxWaitingDatagrams = 16;
inline constexpr std::chrono::seconds kUdpIdleTime{60};
inline constexpr std::chrono::seconds kRefusedTime{10};

class UdpRelay {
 public:
  explicit UdpRelay(SandboxSession& session) : session_(session) {}
  // Until cancelled.
  Task<> run(Fd socket);

  struct Key {
    Endpoint source;
    Endpoint destination;
    auto operator<=>(const Key&) const = default;
  };
  // One association's datagrams until its sockets are there.
  struct Waiting {
    std::deque<std::string> datagrams;
    std::function<void(std::string_view)> send;  // set when they are
  };

 private:
  void received(Datagram datagram);
  Task<> serve(Key key, std::shared_ptr<Waiting> waiting);
  bool was_refused(const Key& key, Instant now);

  SandboxSession& session_;
  // Shared with the task that serves it.
  std::map<Key, std::shared_ptr<Waiting>> associations_;
  std::map<Key, Instant> refused_;
};

}  // namespace atl::proxy
