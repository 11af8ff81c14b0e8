// Internet addresses as values, and what kind of place they lead to.
//
// Everything is 16 bytes: an IPv4 address is held in its mapped form, so one comparison serves
// both families. Spelling is strict: what inet_aton would take as octal, hexadecimal or three
// numbers is no address here, because two readers that disagree about an address are an attack.
//
// The class of an address decides before any policy is asked. Everything that is not plainly the
// public internet is closed by default, and an IPv4 address hidden in an IPv6 one (mapped,
// compatible, NAT64, 6to4, Teredo, ISATAP) has the class of what it hides.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::egress {

class Address {
 public:
  using Bytes = std::array<std::uint8_t, 16>;

  Address() = default;  // ::
  static Address v4(std::uint32_t host_order);
  static Address v6(const Bytes& bytes) { return Address{bytes}; }
  // Exactly four decimal numbers without leading zeros, or RFC 4291 text without a zone.
  static std::optional<Address> parse(std::string_view text);

  bool is_v4() const;
  std::uint32_t v4_bits() const;  // REQUIRES: is_v4(); host order
  const Bytes& bytes() const { return bytes_; }
  std::string text() const;
  auto operator<=>(const Address&) const = default;

 private:
  explicit Address(const Bytes& bytes) : bytes_(bytes) {}
  Bytes bytes_{};
};

// A range of addresses: "10.0.0.0/8", "2001:db8::/32", or one address.
class Network {
 public:
  static std::optional<Network> parse(std::string_view text);
  static Network of(const Address& address) { return Network{address, 128}; }
  bool contains(const Address& address) const;
  std::string text() const;
  bool operator==(const Network&) const = default;

 private:
  Network(const Address& base, unsigned bits) : base_(base), bits_(bits) {}
  Address base_;
  unsigned bits_ = 128;  // of the 16-byte form
};

enum class AddressClass : std::uint8_t {
  kPublic,
  kUnspecified,  // 0.0.0.0/8, ::
  kLoopback,
  kLinkLocal,
  kMetadata,  // where clouds hand out identities
  kPrivate,   // RFC 1918, unique local, site local
  kShared,    // carrier-grade NAT
  kMulticast,
  kReserved,  // documentation, benchmarks, future use, broadcast
};
std::string_view address_class_name(AddressClass address_class);
// REQUIRES nothing; the strictest class of the address and of any IPv4 address inside it.
AddressClass classify_address(const Address& address);
// The IPv4 addresses that translators and tunnels would reach for this IPv6 address.
std::vector<Address> hidden_addresses(const Address& address);

// Which classes a host opens. Asked before any policy: what it refuses, no rule can allow.
class AddressGuard {
 public:
  // `opened`: ranges the operator allows although their class is closed (never metadata, unless
  // named exactly); `own`: addresses of this host.
  AddressGuard(std::vector<Network> opened, std::vector<Address> own)
      : opened_(std::move(opened)), own_(std::move(own)) {}
  // Nothing when it may be dialled; else the reason, for people: "10.0.0.1 is a private address".
  std::optional<std::string> refusal(const Address& address) const;

 private:
  std::vector<Network> opened_;
  std::vector<Address> own_;
};

}  // namespace atl::egress
