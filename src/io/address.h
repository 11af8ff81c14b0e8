// IP addresses and networks as values, and names made into addresses.
//
// Who dials an address that somebody else chose checks the very address it dials: resolve here,
// decide here, and connect to the literal. A name that is looked up twice may have two answers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/task.h"

namespace atl::io {

class OffloadPool;

class IpAddress {
 public:
  // A literal in its usual form ("127.0.0.1", "::1"); an IPv4 address inside IPv6 becomes IPv4.
  static std::optional<IpAddress> parse(std::string_view text);
  static IpAddress v4(std::array<std::uint8_t, 4> bytes);
  static IpAddress v6(std::array<std::uint8_t, 16> bytes);

  bool is_v4() const { return is_v4_; }
  std::string text() const;
  // Reachable for everybody: not loopback, private, link-local (where clouds keep their metadata),
  // shared, multicast, reserved, nor an IPv6 form that carries an IPv4 address elsewhere.
  bool is_public() const;
  bool operator==(const IpAddress&) const = default;

 private:
  friend class IpNetwork;
  std::array<std::uint8_t, 16> bytes_{};  // IPv4 in the first four
  bool is_v4_ = true;
};

class IpNetwork {
 public:
  // "10.0.0.0/8", "fd00::/8", or an address alone.
  static std::optional<IpNetwork> parse(std::string_view text);
  bool contains(const IpAddress& address) const;

 private:
  IpAddress base_;
  unsigned prefix_bits_ = 0;
};

// All addresses of a name or a literal, in the system's order; at least one.
Task<std::vector<IpAddress>> resolve_host(OffloadPool& pool, std::string host);

}  // namespace atl::io
