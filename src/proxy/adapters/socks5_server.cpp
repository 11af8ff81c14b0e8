#include "proxy/adapters/socks5_server.h"

#include <array>

#include "base/strings.h"
#include "io/address.h"

namespace atl::proxy::adapters {
namespace {

constexpr std::uint8_t kVersion = 5;
constexpr std::uint8_t kLoginVersion = 1;

std::uint8_t at(std::string_view bytes, std::size_t index) {
  return static_cast<std::uint8_t>(bytes[index]);
}

std::unexpected<Error> malformed() {
  return fail(Code::kInvalidArgument, "this is not SOCKS5");
}

std::string address_text(std::uint8_t kind, std::string_view bytes) {
  if (kind == 1) {
    return io::IpAddress::v4({at(bytes, 0), at(bytes, 1), at(bytes, 2), at(bytes, 3)}).text();
  }
  if (kind == 4) {
    std::array<std::uint8_t, 16> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = at(bytes, i);
    }
    return concat("[", io::IpAddress::v6(all).text(), "]");
  }
  std::string text;
  append_printable(text, bytes);
  return text;
}

}  // namespace

Result<std::optional<Socks5Greeting>> read_socks5_greeting(std::string_view bytes) {
  if (!bytes.empty() && at(bytes, 0) != kVersion) {
    return malformed();
  }
  if (bytes.size() < 2) {
    return std::nullopt;
  }
  const std::size_t count = at(bytes, 1);
  if (count == 0) {
    return malformed();
  }
  if (bytes.size() < 2 + count) {
    return std::nullopt;
  }
  Socks5Greeting greeting{.consumed = 2 + count};
  for (std::size_t i = 0; i < count; ++i) {
    greeting.without_login = greeting.without_login || at(bytes, 2 + i) == 0;
    greeting.with_login = greeting.with_login || at(bytes, 2 + i) == 2;
  }
  return greeting;
}

Result<std::optional<std::size_t>> read_socks5_login(std::string_view bytes) {
  if (!bytes.empty() && at(bytes, 0) != kLoginVersion) {
    return malformed();
  }
  if (bytes.size() < 2 || bytes.size() < 3U + at(bytes, 1)) {
    return std::nullopt;
  }
  const std::size_t name_end = 2U + at(bytes, 1);
  const std::size_t end = name_end + 1U + at(bytes, name_end);
  if (bytes.size() < end) {
    return std::nullopt;
  }
  return end;
}

Result<std::optional<Socks5Request>> read_socks5_request(std::string_view bytes) {
  constexpr std::size_t kHeadBytes = 4;
  if (!bytes.empty() && at(bytes, 0) != kVersion) {
    return malformed();
  }
  if (bytes.size() < kHeadBytes + 1) {
    return std::nullopt;
  }
  const std::uint8_t command = at(bytes, 1);
  const std::uint8_t kind = at(bytes, 3);
  if (at(bytes, 2) != 0 || command < 1 || command > 3 || (kind != 1 && kind != 3 && kind != 4)) {
    return malformed();
  }
  const std::size_t begin = kind == 3 ? kHeadBytes + 1 : kHeadBytes;
  const std::size_t size = kind == 1 ? 4U : kind == 4 ? 16U : at(bytes, kHeadBytes);
  constexpr std::size_t kPortBytes = 2;
  if (size == 0) {
    return malformed();
  }
  if (bytes.size() < begin + size + kPortBytes) {
    return std::nullopt;
  }
  const unsigned port =
      static_cast<unsigned>(at(bytes, begin + size)) << 8U | at(bytes, begin + size + 1);
  constexpr std::string_view kNames[] = {"connect", "bind", "udp"};
  return Socks5Request{.consumed = begin + size + kPortBytes,
                       .text = concat(kNames[command - 1], " ",
                                      address_text(kind, bytes.substr(begin, size)), ":", port)};
}

Result<std::string> socks5_login(std::string_view username, std::string_view password) {
  if (username.empty() || username.size() > UINT8_MAX || password.empty() ||
      password.size() > UINT8_MAX) {
    return fail(Code::kFailedPrecondition,
                "name and password for SOCKS5 must have 1 to 255 bytes each");
  }
  std::string out(1, static_cast<char>(kLoginVersion));
  out.push_back(static_cast<char>(username.size()));
  out += username;
  out.push_back(static_cast<char>(password.size()));
  out += password;
  return out;
}

}  // namespace atl::proxy::adapters
