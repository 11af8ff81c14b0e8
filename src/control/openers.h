// Which process of a sandbox opened a connection: its agent is asked, and can only lie about its
// own sandbox. Loop thread only.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "control/sandboxes.h"
#include "egress/boundary.h"
#include "io/reactor.h"

namespace atl::control {

// Few questions at a time, and each answered at once or not at all: a sandbox that opens thousands
// of connections costs no more than one that opens ten.
class GuestOpeners final : public egress::Openers {
 public:
  GuestOpeners(io::Reactor& reactor, const Sandboxes& sandboxes)
      : reactor_(reactor), sandboxes_(sandboxes) {}

  Task<egress::Opener> find(std::string sandbox_id, egress::Transport transport,
                            std::uint16_t port) override;

 private:
  io::Reactor& reactor_;
  const Sandboxes& sandboxes_;
  struct Asking {
    std::size_t under_way = 0;
    Instant second{};  // the one that is counted
    std::size_t in_second = 0;
  };
  Asking* may_ask(const std::string& sandbox_id);

  std::map<std::string, Asking, std::less<>> asking_;
  std::size_t asking_all_ = 0;
};

}  // namespace atl::control
