#include "proxy/dns/pins.h"

#include <algorithm>

namespace atl::proxy::dns {

void Pins::add(const std::string& name, const egress::Address& address, Instant now) {
  auto found = by_address_.find(address);
  if (found == by_address_.end()) {
    if (by_address_.size() >= kMaxPinnedAddresses) {
      by_address_.erase(uses_.front());
      uses_.pop_front();
    }
    uses_.push_back(address);
    found = by_address_.emplace(address, Entry{{}, std::prev(uses_.end())}).first;
  } else {
    uses_.splice(uses_.end(), uses_, found->second.use);
  }
  auto& pins = found->second.pins;
  std::erase_if(pins, [&](const Pin& pin) { return pin.name == name || pin.until <= now; });
  if (pins.size() >= kMaxNamesPerAddress) {
    pins.erase(pins.begin());
  }
  pins.push_back({name, now + kPinTime});
}

std::vector<std::string> Pins::names(const egress::Address& address, Instant now) {
  std::vector<std::string> names;
  const auto found = by_address_.find(address);
  if (found == by_address_.end()) {
    return names;
  }
  uses_.splice(uses_.end(), uses_, found->second.use);
  for (auto pin = found->second.pins.rbegin(); pin != found->second.pins.rend(); ++pin) {
    if (pin->until > now) {
      names.push_back(pin->name);
    }
  }
  return names;
}

}  // namespace atl::proxy::dns
