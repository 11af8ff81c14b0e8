#include "egress/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace atl::egress {
namespace {

constexpr unsigned kMappedBits = 96;

std::optional<std::uint32_t> parse_v4(std::string_view text) {
  const auto parts = split(text, '.');
  if (parts.size() != 4) {
    return std::nullopt;
  }
  std::uint32_t bits = 0;
  for (const auto part : parts) {
    const bool leading_zero = part.size() > 1 && part[0] == '0';
    const auto number = parse_u64(part);
    if (part.size() > 3 || leading_zero || !number || *number > 255) {
      return std::nullopt;
    }
    bits = bits << 8 | static_cast<std::uint32_t>(*number);
  }
  return bits;
}

struct ClassRange {
  std::string_view range;
  AddressClass address_class;
};

// The first match decides, so metadata stands before the ranges it lies in.
constexpr ClassRange kRanges[] = {
    {"169.254.169.254", AddressClass::kMetadata},   // most clouds
    {"169.254.170.0/23", AddressClass::kMetadata},  // container and pod identities
    {"169.254.169.0/24", AddressClass::kMetadata},
    {"100.100.100.200", AddressClass::kMetadata},
    {"168.63.129.16", AddressClass::kMetadata},
    {"192.0.0.192", AddressClass::kMetadata},
    {"fd00:ec2::/32", AddressClass::kMetadata},
    {"fd20:ce::254", AddressClass::kMetadata},
    {"fd00:c1::a9fe:a9fe", AddressClass::kMetadata},
    {"fd00:42::42", AddressClass::kMetadata},
    {"0.0.0.0/8", AddressClass::kUnspecified},
    {"127.0.0.0/8", AddressClass::kLoopback},
    {"169.254.0.0/16", AddressClass::kLinkLocal},
    {"10.0.0.0/8", AddressClass::kPrivate},
    {"172.16.0.0/12", AddressClass::kPrivate},
    {"192.168.0.0/16", AddressClass::kPrivate},
    {"100.64.0.0/10", AddressClass::kShared},
    {"224.0.0.0/4", AddressClass::kMulticast},
    {"192.0.0.0/24", AddressClass::kReserved},
    {"192.0.2.0/24", AddressClass::kReserved},
    {"192.88.99.0/24", AddressClass::kReserved},
    {"198.18.0.0/15", AddressClass::kReserved},
    {"198.51.100.0/24", AddressClass::kReserved},
    {"203.0.113.0/24", AddressClass::kReserved},
    {"240.0.0.0/4", AddressClass::kReserved},
    {"::", AddressClass::kUnspecified},
    {"::1", AddressClass::kLoopback},
    {"fe80::/10", AddressClass::kLinkLocal},
    {"fec0::/10", AddressClass::kPrivate},
    {"fc00::/7", AddressClass::kPrivate},
    {"ff00::/8", AddressClass::kMulticast},
    {"100::/64", AddressClass::kReserved},
    {"2001::/23", AddressClass::kReserved},
    {"2001:db8::/32", AddressClass::kReserved},
    {"2002::/16", AddressClass::kReserved},
    {"3fff::/20", AddressClass::kReserved},
    {"64:ff9b::/96", AddressClass::kReserved},
    {"64:ff9b:1::/48", AddressClass::kReserved},
    {"5f00::/16", AddressClass::kReserved},
};

struct ParsedRange {
  Network network;
  AddressClass address_class;
};

const std::vector<ParsedRange>& parsed_ranges() {
  static const std::vector<ParsedRange> kParsed = [] {
    std::vector<ParsedRange> parsed;
    for (const auto& range : kRanges) {
      const auto network = Network::parse(range.range);
      CHECK(network.has_value());
      parsed.push_back({*network, range.address_class});
    }
    return parsed;
  }();
  return kParsed;
}

AddressClass plain_class(const Address& address) {
  for (const auto& range : parsed_ranges()) {
    if (range.network.contains(address)) {
      return range.address_class;
    }
  }
  // What IANA has not given out is not the public internet.
  const bool global_unicast = address.is_v4() || (address.bytes()[0] & 0xe0U) == 0x20U;
  return global_unicast ? AddressClass::kPublic : AddressClass::kReserved;
}

bool begins_with(const Address& address, std::string_view prefix, unsigned bits) {
  const auto base = Network::parse(concat(prefix, "/", bits));
  CHECK(base.has_value());
  return base->contains(address);
}

Address v4_at(const Address& address, std::size_t offset, std::uint8_t flip = 0) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    bits = bits << 8 | static_cast<std::uint32_t>(address.bytes()[offset + i] ^ flip);
  }
  return Address::v4(bits);
}

}  // namespace

Address Address::v4(std::uint32_t host_order) {
  Bytes bytes{};
  bytes[10] = bytes[11] = 0xff;
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[12 + i] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
  }
  return Address{bytes};
}

std::optional<Address> Address::parse(std::string_view text) {
  if (text.find(':') == std::string_view::npos) {
    const auto bits = parse_v4(text);
    return bits ? std::optional{v4(*bits)} : std::nullopt;
  }
  if (text.size() >= INET6_ADDRSTRLEN) {
    return std::nullopt;
  }
  // inet_pton takes no zone and, in the IPv4 tail, no leading zeros.
  const std::string copy{text};
  Bytes bytes{};
  if (copy.size() != std::strlen(copy.c_str()) || inet_pton(AF_INET6, copy.c_str(), &bytes) != 1) {
    return std::nullopt;
  }
  return Address{bytes};
}

bool Address::is_v4() const {
  return std::all_of(bytes_.begin(), bytes_.begin() + 10, [](auto byte) { return byte == 0; }) &&
         bytes_[10] == 0xff && bytes_[11] == 0xff;
}

std::uint32_t Address::v4_bits() const {
  CHECK(is_v4());
  std::uint32_t bits = 0;
  for (std::size_t i = 12; i < 16; ++i) {
    bits = bits << 8 | bytes_[i];
  }
  return bits;
}

std::string Address::text() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  if (is_v4()) {
    return inet_ntop(AF_INET, bytes_.data() + 12, buffer.data(), buffer.size());
  }
  return inet_ntop(AF_INET6, bytes_.data(), buffer.data(), buffer.size());
}

std::optional<Network> Network::parse(std::string_view text) {
  const auto slash = text.find('/');
  const auto base = Address::parse(text.substr(0, slash));
  if (!base) {
    return std::nullopt;
  }
  // "::ffff:10.0.0.0/104" would be read as IPv4 by some and as IPv6 by others.
  const bool v4 = text.find(':') == std::string_view::npos;
  if (!v4 && base->is_v4()) {
    return std::nullopt;
  }
  const unsigned most = v4 ? 32 : 128;
  std::uint64_t bits = most;
  if (slash != std::string_view::npos) {
    const auto number = parse_u64(text.substr(slash + 1));
    if (!number || *number > most) {
      return std::nullopt;
    }
    bits = *number;
  }
  const Network network{*base, static_cast<unsigned>(bits) + (v4 ? kMappedBits : 0)};
  // "10.1.2.3/8" is a mistake: who wrote it meant either less or more.
  for (unsigned bit = network.bits_; bit < 128; ++bit) {
    if ((base->bytes()[bit / 8] >> (7 - bit % 8) & 1U) != 0) {
      return std::nullopt;
    }
  }
  return network;
}

bool Network::contains(const Address& address) const {
  const unsigned whole = bits_ / 8;
  if (!std::equal(base_.bytes().begin(), base_.bytes().begin() + whole, address.bytes().begin())) {
    return false;
  }
  const unsigned rest = bits_ % 8;
  if (rest == 0) {
    return true;
  }
  const auto mask = static_cast<std::uint8_t>(0xff00U >> rest);
  return ((base_.bytes()[whole] ^ address.bytes()[whole]) & mask) == 0;
}

std::string Network::text() const {
  const bool v4 = base_.is_v4() && bits_ >= kMappedBits;
  return concat(base_.text(), "/", v4 ? bits_ - kMappedBits : bits_);
}

std::string_view address_class_name(AddressClass address_class) {
  switch (address_class) {
    case AddressClass::kPublic:
      return "public";
    case AddressClass::kUnspecified:
      return "unspecified";
    case AddressClass::kLoopback:
      return "loopback";
    case AddressClass::kLinkLocal:
      return "link-local";
    case AddressClass::kMetadata:
      return "metadata service";
    case AddressClass::kPrivate:
      return "private";
    case AddressClass::kShared:
      return "carrier-grade NAT";
    case AddressClass::kMulticast:
      return "multicast";
    case AddressClass::kReserved:
      return "reserved";
  }
  return "unknown";
}

std::vector<Address> hidden_addresses(const Address& address) {
  if (address.is_v4()) {
    return {};
  }
  std::vector<Address> hidden;
  if (begins_with(address, "::", 96)) {  // IPv4-compatible
    hidden.push_back(v4_at(address, 12));
  }
  if (begins_with(address, "64:ff9b::", 96) || begins_with(address, "64:ff9b:1::", 48)) {
    hidden.push_back(v4_at(address, 12));
  }
  if (begins_with(address, "2002::", 16)) {  // 6to4
    hidden.push_back(v4_at(address, 2));
  }
  if (begins_with(address, "2001::", 32)) {  // Teredo: server plain, client inverted
    hidden.push_back(v4_at(address, 4));
    hidden.push_back(v4_at(address, 12, 0xff));
  }
  const auto& bytes = address.bytes();
  if ((bytes[8] & 0xfcU) == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe) {
    hidden.push_back(v4_at(address, 12));  // ISATAP
  }
  return hidden;
}

AddressClass classify_address(const Address& address) {
  for (const auto& inner : hidden_addresses(address)) {
    const auto inner_class = plain_class(inner);
    if (inner_class == AddressClass::kMetadata) {
      return inner_class;
    }
  }
  const auto own = plain_class(address);
  if (own != AddressClass::kPublic && own != AddressClass::kReserved) {
    return own;
  }
  for (const auto& inner : hidden_addresses(address)) {
    const auto inner_class = plain_class(inner);
    if (inner_class != AddressClass::kPublic) {
      return inner_class;
    }
  }
  return own;
}

std::optional<std::string> AddressGuard::refusal(const Address& address) const {
  const auto address_class = classify_address(address);
  // An address of this host is closed although its class may be public, unless it was opened.
  const bool own = std::find(own_.begin(), own_.end(), address) != own_.end();
  if (address_class == AddressClass::kPublic && !own) {
    return std::nullopt;
  }
  for (const auto& network : opened_) {
    const bool exact = network == Network::of(address);
    if (network.contains(address) && (exact || address_class != AddressClass::kMetadata)) {
      return std::nullopt;
    }
  }
  if (own) {
    return concat(address.text(), " is an address of the host itself");
  }
  return concat(address.text(), " is a ", address_class_name(address_class), " address");
}

}  // namespace atl::egress
