// What clients inside and servers outside say to the adapters before a session is open.
#include "base/strings.h"
#include "fuzz.h"
#include "proxy/adapters/mqtt_connect.h"
#include "proxy/adapters/postgres_login.h"
#include "proxy/adapters/postgres_messages.h"
#include "proxy/adapters/redis_commands.h"
#include "proxy/adapters/socks5_server.h"
#include "ssh/known_hosts.h"

namespace atl::fuzz {
namespace {

namespace adapters = proxy::adapters;

void redis(std::string_view input) {
  (void)same_for_every_cut(input, [](const std::vector<std::string_view>& parts) {
    adapters::RedisCommands commands{"user", "password-of-the-test"};
    std::string out;
    bool good = true;
    for (const auto part : parts) {
      good = good && commands.feed(part, out).has_value();
    }
    return std::pair{good, out};
  });
}

void mqtt(std::string_view input) {
  const auto first = adapters::rewrite_mqtt_connect(input, "u", "p");
  if (first && *first) {
    CHECK((*first)->consumed <= input.size());
    // What we write is what we would read, and stays as it is.
    const auto again = adapters::rewrite_mqtt_connect((*first)->packet, "u", "p");
    CHECK(again && *again && (*again)->packet == (*first)->packet);
  }
}

void postgres(std::string_view input) {
  if (auto startup = adapters::read_postgres_startup(input);
      startup && *startup && (*startup)->kind == adapters::PostgresStartup::Kind::kStart) {
    CHECK((*startup)->consumed <= input.size());
    const auto again = adapters::read_postgres_startup(adapters::encode(**startup));
    CHECK(again && *again && (*again)->parameters == (*startup)->parameters);
  }
  adapters::PostgresLogin login{"u", "p", false, "n"};
  for (;;) {
    const auto message = adapters::read_postgres_message(input);
    if (!message || !*message || !login.answer((*message)->body) || login.done()) {
      break;
    }
    input.remove_prefix((*message)->consumed);
  }
}

}  // namespace

void greetings(std::string_view input) {
  redis(input);
  mqtt(input);
  postgres(input);
  (void)adapters::read_socks5_greeting(input);
  (void)adapters::read_socks5_login(input);
  if (const auto request = adapters::read_socks5_request(input); request && *request) {
    CHECK((*request)->consumed <= input.size());
  }
  if (const auto key = ssh::parse_public_key(input)) {
    const auto again = ssh::parse_public_key(ssh::format_public_key(*key));
    CHECK(again && again->blob == key->blob);
  }
  if (const auto hosts = ssh::KnownHosts::parse({std::string{input}})) {
    (void)hosts->verify("host.example", 22, "key");
  }
}

Seeds greetings_seeds() {
  using namespace std::string_literals;
  return {"*2\r\n$4\r\nAUTH\r\n$4\r\nfake\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
          "*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n",
          "config get *\r\n",
          "\x10\x13\x00\x04MQTT\x04\xC2\x00\x3C\x00\x01"s + "c\x00\x01"s + "u\x00\x01"s + "p",
          "\x10\x20\x00\x04MQTT\x05\x06\x00\x3C\x05\x11\x00\x00\x00\x0A"s + "\x00\x01"s +
              "c\x00\x00\x01t\x00\x07payload"s,
          "\x05\x02\x00\x02"s,
          "\x01\x01u\x02pp"s,
          "\x05\x01\x00\x03\x07"s + "a.b.com\x01\xBB"s,
          "\x00\x00\x00\x08\x04\xd2\x16\x2f"s,
          "\x00\x00\x00\x12\x00\x03\x00\x00user\x00me\x00\x00"s,
          "R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"s,
          "R\x00\x00\x00\x0c\x00\x00\x00\x05salt"s,
          "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1vcmVTYW5kYm94ZXNUaGFuU2FuZE9uVGhlQmVhY2g= me",
          "host.example,!other,*.x ssh-ed25519 "
          "AAAAC3NzaC1lZDI1NTE5AAAAIE1vcmVTYW5kYm94ZXNUaGFuU2FuZE9uVGhlQmVhY2g="};
}

}  // namespace atl::fuzz
