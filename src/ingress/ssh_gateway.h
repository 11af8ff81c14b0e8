// `ssh <sandbox>@host -p 2222`: people and tools in sandboxes, with nothing but OpenSSH.
//
// The user name is the sandbox's id or name (`+main` after it is understood and means the same);
// the key is one that the sandbox's team has registered (control/ssh_keys.h). A login wakes the
// sandbox if it may be woken, and is a use of it. What comes is terminated here, in the process
// without privileges; inside, programs run as the template's user. Loop thread only.
#pragma once

#include <list>
#include <string>

#include "control/sandboxes.h"
#include "control/ssh_keys.h"
#include "ingress/counted.h"
#include "ingress/upstreams.h"
#include "io/reactor.h"
#include "io/stream.h"
#include "secrets/plaintext.h"

namespace atl::ingress {

inline constexpr std::size_t kMaxSshSessions = 512;
// Not logged in yet; each has ssh::kDefaultLoginTime, and less when others come.
inline constexpr std::size_t kMaxSshAnonymous = 64;
inline constexpr std::size_t kMaxSshAnonymousPerAddress = 8;
inline constexpr std::size_t kMaxSshSessionsPerTeam = 64;

class SshGateway {
 public:
  struct Parts {
    io::Reactor& reactor;
    control::Sandboxes& sandboxes;
    const control::SshKeys& keys;
    secrets::Plaintext host_key;
    Connect connect;  // empty: no forwarding
  };
  SshGateway(Parts parts, Fd port);
  ~SshGateway();
  SshGateway(const SshGateway&) = delete;
  SshGateway& operator=(const SshGateway&) = delete;

  std::uint16_t port() const { return listener_.port(); }
  // Until cancelled.
  Task<> run();

 private:
  // Somebody who has not said yet who they are.
  struct Stranger {
    Fd connection;  // empty: had to make room, and is on its way out
    std::string address;
  };
  using Strangers = std::list<Stranger>;  // the longest waiting first

  void make_room(const std::string& address);
  Task<> serve(Fd connection, Strangers::iterator stranger);

  Parts parts_;
  io::Listener listener_;
  std::size_t sessions_ = 0;
  Strangers strangers_;
  Counted::Counts sessions_by_team_;
};

}  // namespace atl::ingress
