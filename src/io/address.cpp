#include "io/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "base/strings.h"
#include "io/offload.h"

namespace atl::io {
namespace {

constexpr std::size_t kMaxAddresses = 16;

// IANA's special-purpose registries (RFC 6890 and its updates), and multicast.
constexpr std::string_view kSpecialNetworks[] = {
    "0.0.0.0/8",      "10.0.0.0/8",     "100.64.0.0/10",   "127.0.0.0/8",     "169.254.0.0/16",
    "172.16.0.0/12",  "192.0.0.0/24",   "192.0.2.0/24",    "192.31.196.0/24", "192.52.193.0/24",
    "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",   "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/4",    "240.0.0.0/4",
};
// Of IPv6 only what is handed out as global unicast is public, without these parts of it.
constexpr std::string_view kGlobalUnicast = "2000::/3";
constexpr std::string_view kSpecialGlobal[] = {"2001::/23", "2001:db8::/32", "2002::/16",
                                               "3fff::/20"};

bool in_any(const IpAddress& address, std::span<const std::string_view> networks) {
  return std::ranges::any_of(networks, [&address](std::string_view text) {
    return IpNetwork::parse(text)->contains(address);
  });
}

Result<std::vector<IpAddress>> look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner{found, &::freeaddrinfo};
  if (status != 0) {
    const bool passing = status == EAI_AGAIN || status == EAI_SYSTEM || status == EAI_MEMORY;
    return fail(passing ? Code::kUnavailable : Code::kNotFound,
                concat("the host \"", host, "\" was not found: ", ::gai_strerror(status)),
                "host_not_found");
  }
  std::vector<IpAddress> addresses;
  for (const addrinfo* each = found; each != nullptr && addresses.size() < kMaxAddresses;
       each = each->ai_next) {
    if (each->ai_family == AF_INET) {
      std::array<std::uint8_t, 4> bytes;
      std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in*>(each->ai_addr)->sin_addr, 4);
      addresses.push_back(IpAddress::v4(bytes));
    } else if (each->ai_family == AF_INET6) {
      std::array<std::uint8_t, 16> bytes;
      std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(each->ai_addr)->sin6_addr,
                  16);
      addresses.push_back(IpAddress::v6(bytes));
    }
  }
  if (addresses.empty()) {
    return fail(Code::kNotFound, concat("the host \"", host, "\" has no address"),
                "host_not_found");
  }
  return addresses;
}

}  // namespace

IpAddress IpAddress::v4(std::array<std::uint8_t, 4> bytes) {
  IpAddress address;
  std::ranges::copy(bytes, address.bytes_.begin());
  return address;
}

IpAddress IpAddress::v6(std::array<std::uint8_t, 16> bytes) {
  static constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  if (std::ranges::equal(std::span{bytes}.first(12), kMapped)) {
    return v4({bytes[12], bytes[13], bytes[14], bytes[15]});
  }
  IpAddress address;
  address.bytes_ = bytes;
  address.is_v4_ = false;
  return address;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  const std::string copy{text};
  std::array<std::uint8_t, 4> four;
  if (!text.contains('\0') && ::inet_pton(AF_INET, copy.c_str(), four.data()) == 1) {
    return v4(four);
  }
  std::array<std::uint8_t, 16> sixteen;
  if (!text.contains('\0') && ::inet_pton(AF_INET6, copy.c_str(), sixteen.data()) == 1) {
    return v6(sixteen);
  }
  return std::nullopt;
}

std::string IpAddress::text() const {
  char buffer[INET6_ADDRSTRLEN];
  ::inet_ntop(is_v4_ ? AF_INET : AF_INET6, bytes_.data(), buffer, sizeof buffer);
  return buffer;
}

bool IpAddress::is_public() const {
  if (is_v4_) {
    return !in_any(*this, kSpecialNetworks);
  }
  return in_any(*this, std::span{&kGlobalUnicast, 1}) && !in_any(*this, kSpecialGlobal);
}

std::optional<IpNetwork> IpNetwork::parse(std::string_view text) {
  const auto slash = text.find('/');
  const auto base = IpAddress::parse(text.substr(0, slash));
  if (!base) {
    return std::nullopt;
  }
  const unsigned most = base->is_v4_ ? 32 : 128;
  std::optional<std::uint64_t> bits = most;
  if (slash != text.npos) {
    bits = parse_u64(text.substr(slash + 1));
  }
  if (!bits || *bits > most) {
    return std::nullopt;
  }
  IpNetwork network;
  network.base_ = *base;
  network.prefix_bits_ = static_cast<unsigned>(*bits);
  return network;
}

bool IpNetwork::contains(const IpAddress& address) const {
  if (address.is_v4_ != base_.is_v4_) {
    return false;
  }
  for (unsigned bit = 0; bit < prefix_bits_; bit += 8) {
    const unsigned left = std::min(8U, prefix_bits_ - bit);
    const auto mask = static_cast<std::uint8_t>(0xFF00U >> left);
    if (((address.bytes_[bit / 8] ^ base_.bytes_[bit / 8]) & mask) != 0) {
      return false;
    }
  }
  return true;
}

Task<std::vector<IpAddress>> resolve_host(OffloadPool& pool, std::string host) {
  if (const auto literal = IpAddress::parse(host)) {
    co_return std::vector{*literal};
  }
  co_return co_await pool.run([&host] { return look_up(host); });
}

}  // namespace atl::io
