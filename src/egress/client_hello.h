// The first message of a TLS client, as far as a decision needs it.
//
// Sans-IO: bytes in, facts out. A hello may come in any number of records and segments; it is put
// together under a cap. What is malformed is refused rather than passed on, because a server might
// read it another way than we did.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::egress {

inline constexpr std::size_t kMaxClientHelloBytes = std::size_t{64} * 1024;

struct ClientHello {
  std::string server_name;  // as sent; empty when there is none
  std::vector<std::string> alpn;
  bool encrypted_hello = false;  // ECH, real or GREASE: they cannot be told apart
  bool early_data = false;
};

// Nothing yet when more bytes are needed; kInvalidArgument for what is no well-formed hello.
Result<std::optional<ClientHello>> read_client_hello(std::string_view bytes);

}  // namespace atl::egress
