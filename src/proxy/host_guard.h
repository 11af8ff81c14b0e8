// The class guard with this host's own addresses, which are read again whenever the kernel says
// that they have changed. A sandbox must not reach the host by any of its names: as long as they
// were never read nothing is dialled, and when they cannot be read again the known ones stay.
#pragma once

#include "egress/address.h"
#include "io/reactor.h"

namespace atl::proxy {

class HostGuard {
 public:
  explicit HostGuard(std::vector<egress::Network> opened);
  // Nothing when it may be dialled; else the reason, for people.
  std::optional<std::string> refusal(const egress::Address& address) const {
    return known_ ? guard_.refusal(address)
                  : std::optional<std::string>{"this host's own addresses are not known yet"};
  }
  // Follows the host's addresses until cancelled.
  Task<> run(io::Reactor& reactor);

 private:
  Task<> follow(io::Reactor& reactor);
  Result<> refresh();
  std::vector<egress::Network> opened_;
  egress::AddressGuard guard_;
  bool known_ = false;
};

// Every address of every interface of this network namespace.
Result<std::vector<egress::Address>> own_addresses();

}  // namespace atl::proxy
