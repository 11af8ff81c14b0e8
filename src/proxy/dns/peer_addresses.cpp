#include "proxy/dns/peer_addresses.h"

namespace atl::proxy::dns {
namespace {

constexpr std::uint32_t kFirst = 0x0ac90001;  // 10.201.0.1
constexpr std::uint32_t kPrefix = 0x0ac90000;
constexpr std::uint32_t kMask = 0xffff0000;

}  // namespace

std::optional<egress::Address> PeerAddresses::address_of(std::string_view label) {
  auto found = places_.find(label);
  if (found == places_.end()) {
    if (labels_.size() >= kMaxPeerAddresses) {
      return std::nullopt;
    }
    found = places_.emplace(label, labels_.size()).first;
    labels_.emplace_back(label);
  }
  return egress::Address::v4(kFirst + static_cast<std::uint32_t>(found->second));
}

bool PeerAddresses::is_peer_range(const egress::Address& address) {
  return address.is_v4() && (address.v4_bits() & kMask) == kPrefix;
}

std::optional<std::string> PeerAddresses::label_of(const egress::Address& address) const {
  if (!is_peer_range(address) || address.v4_bits() < kFirst) {
    return std::nullopt;
  }
  const std::size_t place = address.v4_bits() - kFirst;
  return place < labels_.size() ? std::optional{labels_[place]} : std::nullopt;
}

}  // namespace atl::proxy::dns
