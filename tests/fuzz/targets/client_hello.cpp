// The first message of a TLS client: whatever the records it is cut into, it says the same, and
// what was read once does not change when more comes.
#include "egress/client_hello.h"

#include <algorithm>

#include "fuzz.h"

namespace atl::fuzz {
namespace {

using egress::ClientHello;
using egress::read_client_hello;

bool same(const ClientHello& one, const ClientHello& other) {
  return one.server_name == other.server_name && one.alpn == other.alpn &&
         one.encrypted_hello == other.encrypted_hello && one.early_data == other.early_data;
}

// Handshake bytes in records of a size.
std::string in_records(std::string_view handshake, std::size_t size) {
  std::string out;
  for (std::size_t at = 0; at < handshake.size(); at += size) {
    const auto piece = handshake.substr(at, size);
    out += "\x16\x03\x01";
    out += static_cast<char>(piece.size() >> 8U);
    out += static_cast<char>(piece.size() & 0xffU);
    out += piece;
  }
  return out;
}

std::string number16(std::size_t value) {
  return {static_cast<char>(value >> 8U), static_cast<char>(value & 0xffU)};
}

std::string extension(std::size_t kind, std::string_view content) {
  return number16(kind) + number16(content.size()) + std::string{content};
}

std::string server_name(std::string_view name) {
  const auto entry = std::string(1, '\0') + number16(name.size()) + std::string{name};
  return extension(0, number16(entry.size()) + entry);
}

std::string hello(std::string_view extensions) {
  const auto body = "\x03\x03" + std::string(32, 'r') + std::string(1, '\0') + number16(2) +
                    "\x13\x01" + std::string("\x01\x00", 2) + number16(extensions.size()) +
                    std::string{extensions};
  return std::string("\x01\x00", 2) + number16(body.size()) + body;
}

}  // namespace

// One byte says whether the rest is records or a handshake to be cut into records.
void client_hello(std::string_view bytes) {
  Input input{bytes};
  const auto size = std::size_t{input.number()};
  const auto rest = input.rest();
  if (size == 0) {
    const auto whole = read_client_hello(rest);
    for (std::size_t end = 0; end < std::min<std::size_t>(rest.size(), 400); ++end) {
      const auto part = read_client_hello(rest.substr(0, end));
      CHECK(!part || !*part || (whole && *whole && same(**part, **whole)));
    }
    return;
  }
  const auto whole = read_client_hello(in_records(rest, 1U << 14U));
  const auto cut = read_client_hello(in_records(rest, size));
  CHECK(whole.has_value() == cut.has_value());
  if (whole) {
    CHECK(whole->has_value() == cut->has_value());
    CHECK(!*whole || same(**whole, **cut));
  }
}

Seeds client_hello_seeds() {
  using namespace std::string_literals;
  const auto alpn = extension(16, number16(12) + "\x02h2\x08http/1.1");
  const auto plain = hello(server_name("a.example") + alpn);
  return {
      "\0"s + in_records(plain, 1U << 14U),
      "\0"s + in_records(plain, 7),
      "\x01"s + plain,
      "\x40"s + hello(server_name("a.example") + server_name("b.example")),
      "\x40"s + hello(server_name("a.example"s + '\0' + ".b.example")),
      "\x40"s + hello(extension(0xfe0d, "\0secret"s) + server_name("outer.example")),
      "\x40"s + hello(extension(42, "") + alpn),
      "\x40"s + hello(""),
      "\x40"s + plain.substr(0, plain.size() - 3),
  };
}

}  // namespace atl::fuzz
