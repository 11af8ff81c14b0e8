// The server's half of a SOCKS5 greeting (RFC 1928, RFC 1929), and the request after it, read
// strictly. Sans-IO: each function is given everything so far and says nothing when it needs more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::proxy::adapters {

inline constexpr std::size_t kMaxSocks5GreetingBytes = 257;
inline constexpr std::size_t kMaxSocks5LoginBytes = 513;
inline constexpr std::size_t kMaxSocks5RequestBytes = 262;

struct Socks5Greeting {
  std::size_t consumed = 0;
  bool without_login = false;  // the client offers it
  bool with_login = false;
};
Result<std::optional<Socks5Greeting>> read_socks5_greeting(std::string_view bytes);
// How many bytes the client's name and password take; what they say does not matter.
Result<std::optional<std::size_t>> read_socks5_login(std::string_view bytes);

struct Socks5Request {
  std::size_t consumed = 0;
  std::string text;  // "connect example.com:443", for the audit
};
Result<std::optional<Socks5Request>> read_socks5_request(std::string_view bytes);

// What a client sends to log in.
Result<std::string> socks5_login(std::string_view username, std::string_view password);

}  // namespace atl::proxy::adapters
