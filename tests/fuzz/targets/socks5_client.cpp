// A SOCKS5 proxy that says anything: it is never asked for more than its answer, and the password
// is sent only when it asked for one.
#include "fuzz.h"
#include "proxy/socks5.h"

namespace atl::fuzz {

void socks5_client(std::string_view bytes) {
  Input input{bytes};
  const bool with_login = input.number() % 2 == 0;
  const bool v6 = input.number() % 2 == 0;
  const auto address =
      v6 ? *egress::Address::parse("2001:4860::8888") : egress::Address::v4(0x08080808);
  proxy::Socks5Client client{{address, 443}, with_login ? "user" : "", with_login ? "pass" : ""};
  std::string sent = client.take_output();
  CHECK(sent.find("pass") == std::string::npos);
  std::size_t taken = 0;
  while (client.wanted_bytes() > 0) {
    CHECK(client.wanted_bytes() <= 257);
    const auto answer = input.take(client.wanted_bytes());
    if (answer.size() < client.wanted_bytes()) {
      return;
    }
    taken += answer.size();
    if (!client.feed(answer)) {
      return;
    }
    const auto output = client.take_output();
    CHECK(output.find("pass") == std::string::npos || (with_login && answer == "\x05\x02"));
  }
  CHECK(taken >= 2 + 4 + 1 + 2);  // the shortest: a name of no letters
}

Seeds socks5_client_seeds() {
  using namespace std::string_literals;
  return {"\1\1\5\0\5\0\0\1\1\2\3\4\0\x50"s,
          "\0\1\5\2\1\0\5\0\0\1\1\2\3\4\0\x50"s,
          "\0\0\5\2\1\0\5\0\0\4"s + std::string(18, 'a'),
          "\1\0\5\0\5\0\0\3\7a.b.com\0\x50"s,
          "\0\0\5\xff"s,
          "\0\0\5\2\1\1"s,
          "\1\1\5\0\5\5\0\1\0\0\0\0\0\0"s};
}

}  // namespace atl::fuzz
