// Addresses that stand for other sandboxes: what NAME.atoll.internal resolves to, for one sandbox.
// They exist in no network; a connection to one is known by it and led to the peer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "egress/address.h"

namespace atl::proxy::dns {

inline constexpr std::size_t kMaxPeerAddresses = 4096;

class PeerAddresses {
 public:
  // 10.201.0.1 and on, one for each label for the life of the sandbox; nothing when there are too
  // many.
  std::optional<egress::Address> address_of(std::string_view label);
  std::optional<std::string> label_of(const egress::Address& address) const;
  static bool is_peer_range(const egress::Address& address);

 private:
  std::vector<std::string> labels_;
  std::map<std::string, std::size_t, std::less<>> places_;
};

}  // namespace atl::proxy::dns
