// Datagrams of a sandbox through a whole proxy.
#include "proxy/test_proxy.h"

namespace atl::proxy {
namespace {

using egress::Outcome;

class UdpTest : public ProxyTest {
 public:
  UdpTest() : server(reactor, bind("203.0.113.5:9000")) {}
  static Fd bind(std::string_view text) {
    const SocketAddress address = socket_address(at(text));
    Fd fd{::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    CHECK(::bind(fd.get(), address.get(), address.size) == 0);
    return fd;
  }
  Task<> echo() {
    char buffer[2048];
    for (;;) {
      SocketAddress from;
      const ssize_t got =
          ::recvfrom(server.fd.get(), buffer, sizeof buffer, 0, from.get(), &from.size);
      if (got < 0) {
        CO_TRY_DO(co_await server.watch.readable());
        continue;
      }
      ++datagrams;
      ::sendto(server.fd.get(), buffer, static_cast<std::size_t>(got), 0, from.get(), from.size);
    }
  }
  // A socket inside that takes answers from this address only.
  Socket open(std::string_view target) {
    Fd fd = inside->socket(SOCK_DGRAM);
    const SocketAddress address = mapped_socket_address(at(target));
    CHECK(::connect(fd.get(), address.get(), address.size) == 0);
    return {reactor, std::move(fd)};
  }
  Socket server;
  unsigned datagrams = 0;
};

Task<> echoes(UdpTest& test) {
  Scope scope{co_await current_context()};
  scope.spawn("echo", test.echo());
  Socket client = test.open("203.0.113.5:9000");
  for (const char* text : {"one", "two", "three"}) {
    CO_TRY_DO(co_await send_all(client, text));
    CO_TRY(const std::string answer, co_await receive_some(client, 100));
    EXPECT_EQ(answer, text);
  }
  Socket six{test.reactor, UdpTest::bind("[2001:db8::5]:9000")};
  Socket other = test.open("[2001:db8::5]:9000");
  CO_TRY_DO(co_await send_all(other, "six"));
  char buffer[16];
  SocketAddress from;
  CO_TRY_DO(co_await wait_readable(six));
  EXPECT_EQ(::recvfrom(six.fd.get(), buffer, sizeof buffer, 0, from.get(), &from.size), 3);
  ::sendto(six.fd.get(), "back", 4, 0, from.get(), from.size);
  CO_TRY(const std::string back, co_await receive_some(other, 100));
  EXPECT_EQ(back, "back");
  Socket inward = test.open("10.9.9.9:9000");
  CO_TRY_DO(co_await send_all(inward, "x"));
  CO_TRY(const auto denied, co_await test.world.wait_for(Outcome::kDenied));
  EXPECT_EQ(denied.origin, "class");
  test.proxy->set_rules(test.rules(R"({"mode":"block-all"})"));
  CO_TRY(const auto cut, co_await test.world.wait_for([](const egress::FlowRecord& one) {
    return one.reason.contains("cut by new rules") && one.bytes_out == 11;
  }));
  EXPECT_EQ(cut.bytes_out, 11U);
  EXPECT_EQ(cut.bytes_in, 11U);
  Socket late = test.open("203.0.113.5:9000");
  CO_TRY_DO(co_await send_all(late, "late"));
  CO_TRY_DO(co_await test.world.wait_for([](const egress::FlowRecord& one) {
    return one.outcome == Outcome::kDenied && one.rule == "mode" && one.bytes_out == 0;
  }));
  EXPECT_EQ(test.datagrams, 3U);
  co_return co_await scope.cancel_and_join();
}
TEST_F(UdpTest, AnswersComeFromTheAddressThatWasWrittenTo) {
  run(rules(R"({"mode":"allow-all"})"), 9000, echoes(*this));
}

}  // namespace
}  // namespace atl::proxy
