// Which names our resolver has answered with an address, for one sandbox: how a connection without
// a name in it gets one. Only a name is taken from here; what is dialled is resolved again.
//
// Bounded: the longest unused is forgotten.
#pragma once

#include <list>
#include <map>
#include <string>
#include <vector>

#include "base/loop.h"
#include "egress/address.h"

namespace atl::proxy::dns {

inline constexpr std::size_t kMaxPinnedAddresses = 4096;
inline constexpr std::size_t kMaxNamesPerAddress = 16;
// Programs keep addresses far beyond their lifetime in DNS.
inline constexpr std::chrono::hours kPinTime{4};

class Pins {
 public:
  void add(const std::string& name, const egress::Address& address, Instant now);
  // The latest first.
  std::vector<std::string> names(const egress::Address& address, Instant now);
  std::size_t size() const { return by_address_.size(); }

 private:
  struct Pin {
    std::string name;
    Instant until;
  };
  struct Entry {
    std::vector<Pin> pins;  // the latest last
    std::list<egress::Address>::iterator use;
  };
  std::map<egress::Address, Entry> by_address_;
  std::list<egress::Address> uses_;  // the longest unused first
};

}  // namespace atl::proxy::dns
