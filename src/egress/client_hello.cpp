#include "egress/client_hello.h"

#include "base/strings.h"

namespace atl::egress {
namespace {

constexpr std::uint8_t kHandshakeRecord = 22;
constexpr std::uint8_t kClientHelloMessage = 1;
constexpr std::size_t kMaxRecordBytes = 16384;
constexpr std::uint16_t kServerNameExtension = 0;
constexpr std::uint16_t kAlpnExtension = 16;
constexpr std::uint16_t kEarlyDataExtension = 42;
constexpr std::uint16_t kEncryptedHelloExtension = 0xfe0d;
constexpr std::uint8_t kHostNameType = 0;

std::unexpected<Error> malformed(std::string_view what) {
  return fail(Code::kInvalidArgument, concat("malformed TLS client hello: ", what));
}

// Reads big-endian numbers and counted pieces; short input is an error, never a wait.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }

  Result<std::size_t> number(std::size_t size) {
    TRY(const auto piece, take(size));
    std::size_t value = 0;
    for (const char c : piece) {
      value = value << 8 | static_cast<std::uint8_t>(c);
    }
    return value;
  }
  Result<std::string_view> take(std::size_t size) {
    if (size > bytes_.size()) {
      return malformed("a length goes past the end");
    }
    const auto piece = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return piece;
  }
  // A piece with its length before it.
  Result<std::string_view> counted(std::size_t length_size) {
    TRY(const auto size, number(length_size));
    return take(size);
  }

 private:
  std::string_view bytes_;
};

Result<> read_server_name(std::string_view body, ClientHello& hello) {
  Reader outer{body};
  TRY(const auto list, outer.counted(2));
  Reader names{list};
  if (!outer.empty() || names.empty()) {
    return malformed("the server name list");
  }
  while (!names.empty()) {
    TRY(const auto type, names.number(1));
    TRY(const auto name, names.counted(2));
    if (type != kHostNameType || !hello.server_name.empty() || name.empty()) {
      return malformed("more than one server name, or one of an unknown type");
    }
    hello.server_name = name;
  }
  return {};
}

Result<> read_alpn(std::string_view body, ClientHello& hello) {
  Reader outer{body};
  TRY(const auto list, outer.counted(2));
  Reader protocols{list};
  if (!outer.empty() || protocols.empty()) {
    return malformed("the list of application protocols");
  }
  while (!protocols.empty()) {
    TRY(const auto protocol, protocols.counted(1));
    if (protocol.empty()) {
      return malformed("an empty application protocol");
    }
    hello.alpn.emplace_back(protocol);
  }
  return {};
}

Result<> read_extensions(std::string_view bytes, ClientHello& hello) {
  Reader extensions{bytes};
  std::vector<std::size_t> seen;
  while (!extensions.empty()) {
    TRY(const auto type, extensions.number(2));
    TRY(const auto body, extensions.counted(2));
    // Two servers could take different ones of a pair.
    for (const auto other : seen) {
      if (other == type) {
        return malformed("an extension occurs twice");
      }
    }
    seen.push_back(type);
    if (type == kServerNameExtension) {
      TRY_DO(read_server_name(body, hello));
    } else if (type == kAlpnExtension) {
      TRY_DO(read_alpn(body, hello));
    } else if (type == kEncryptedHelloExtension) {
      hello.encrypted_hello = true;
    } else if (type == kEarlyDataExtension) {
      hello.early_data = true;
    }
  }
  return {};
}

Result<ClientHello> read_message(std::string_view message) {
  ClientHello hello;
  Reader reader{message};
  TRY_DO(reader.take(2));     // legacy version
  TRY_DO(reader.take(32));    // random
  TRY_DO(reader.counted(1));  // session id
  TRY(const auto suites, reader.counted(2));
  TRY(const auto compressions, reader.counted(1));
  if (suites.empty() || suites.size() % 2 != 0 || compressions.empty()) {
    return malformed("the cipher suites");
  }
  if (reader.empty()) {
    return hello;  // before TLS 1.2 extensions could be missing
  }
  TRY(const auto extensions, reader.counted(2));
  if (!reader.empty()) {
    return malformed("bytes after the extensions");
  }
  TRY_DO(read_extensions(extensions, hello));
  return hello;
}

}  // namespace

Result<std::optional<ClientHello>> read_client_hello(std::string_view bytes) {
  std::string message;  // the handshake bytes of all records so far
  std::size_t needed = 4;
  while (message.size() < needed) {
    if (bytes.size() < 5) {
      return std::nullopt;
    }
    const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
    const std::size_t size = static_cast<std::size_t>(at(3)) << 8 | at(4);
    if (at(0) != kHandshakeRecord || at(1) != 3 || size == 0 || size > kMaxRecordBytes) {
      return malformed("the record");
    }
    // A record that has not come whole gives what it has: a slow sender is not waited for longer.
    const auto piece = bytes.substr(5, size);
    message += piece;
    if (message.size() >= 4) {
      const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(message[i]); };
      needed = 4 + (static_cast<std::size_t>(byte(1)) << 16 |
                    static_cast<std::size_t>(byte(2)) << 8 | byte(3));
      if (byte(0) != kClientHelloMessage || needed > kMaxClientHelloBytes) {
        return malformed("the handshake message");
      }
    }
    if (piece.size() < size && message.size() < needed) {
      return std::nullopt;
    }
    bytes.remove_prefix(5 + piece.size());
  }
  TRY(auto hello, read_message(std::string_view{message}.substr(4, needed - 4)));
  return std::optional{std::move(hello)};
}

}  // namespace atl::egress
