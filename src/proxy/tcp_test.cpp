// Connections of a sandbox through a whole proxy, between two network namespaces.
#include "proxy/test_tcp.h"

namespace atl::proxy {
namespace {

Task<> passes_both_ways(TcpTest& test) {
  std::string bytes(3 << 20, 'x');
  for (std::size_t i = 0; i < bytes.size(); i += 997) {
    bytes[i] = static_cast<char>(i);
  }
  const auto stream = test.inside->connect(test.reactor, "203.0.113.5:8080");
  Scope scope{co_await current_context()};
  struct Writer {
    static Task<> run(io::FdStream& stream, const std::string& bytes) {
      CO_TRY_DO(co_await stream.write(bytes));
      co_return stream.finish_writing();
    }
  };
  scope.spawn("writer", Writer::run(*stream, bytes));
  CO_TRY(const std::string back, co_await read_to_end(*stream));
  CO_TRY_DO(co_await scope.join());
  EXPECT_TRUE(back == bytes) << back.size();
  CO_TRY(const auto record, co_await test.world.wait_for(Outcome::kAllowed));
  EXPECT_EQ(record.bytes_out, bytes.size());
  EXPECT_EQ(record.bytes_in, bytes.size());
  EXPECT_EQ(record.destination, "203.0.113.5:8080");
  EXPECT_EQ(record.dialled, "203.0.113.5:8080");
  EXPECT_EQ(record.opener.program, "curl");
  EXPECT_EQ(test.world.records.front().outcome, Outcome::kOpen);
  EXPECT_EQ(test.world.records.front().id, record.id);
  co_return ok();
}
TEST_F(TcpTest, BytesPassBothWaysAndAreCountedAndHalfClosingIsKept) {
  steps(kAllowAll, passes_both_ways(*this));
}

Task<> closed_classes(TcpTest& test) {
  for (const char* target : {"10.9.9.9:8080", "169.254.169.254:8080", "127.0.0.2:8080",
                             "[fd00:ec2::254]:8080", "[64:ff9b::a09:909]:8080"}) {
    CO_TRY(const std::string answer,
           co_await test.talk(target, "GET / HTTP/1.1\r\nHost: x.example\r\n\r\n"));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 ")) << target << answer;
    EXPECT_TRUE(answer.contains("address-class")) << answer;
    CO_TRY(const auto record, co_await test.world.wait_for(Outcome::kDenied));
    EXPECT_TRUE(answer.contains(concat("atoll why ", record.id))) << answer;
    EXPECT_EQ(record.origin, "class");
    test.world.records.clear();
  }
  CO_TRY(const std::string alert, co_await test.talk("10.9.9.9:8080", hello("x.example")));
  EXPECT_EQ(alert, std::string_view("\x15\x03\x03\x00\x02\x02\x31", 7));
  CO_TRY(const std::string reset, co_await test.talk("10.9.9.9:8080", "\x01\x02\x03"));
  EXPECT_EQ(reset, "<ECONNRESET>");
  co_return ok();
}
TEST_F(TcpTest, ClosedClassesAreRefusedReadablyWhateverThePolicy) {
  steps(kAllowAll, closed_classes(*this));
}

Task<> names_decide(TcpTest& test) {
  // An allowed name at another's address goes where we resolve it to.
  CO_TRY(std::string answer, co_await test.talk("203.0.113.6:8080", hello("good.example")));
  EXPECT_EQ(answer, hello("good.example"));
  EXPECT_EQ(test.good.connections, 1U);
  EXPECT_EQ(test.evil.connections, 0U);
  const std::string refused{"\x15\x03\x03\x00\x02\x02\x31", 7};
  for (const char* name : {"evil.example", "good.example.evil.example", "xgood.example", ""}) {
    CO_TRY(answer, co_await test.talk("203.0.113.5:8080", hello(name)));
    EXPECT_EQ(answer, refused) << name;
  }
  CO_TRY(answer, co_await test.talk("203.0.113.5:8080", hello(std::string("good.example\0x", 14))));
  EXPECT_EQ(answer, refused);
  CO_TRY(answer, co_await test.talk("203.0.113.5:8080", "SSH-2.0-x\r\n"));
  EXPECT_EQ(answer, "<ECONNRESET>");
  EXPECT_EQ(test.good.connections, 1U);
  co_return ok();
}
TEST_F(TcpTest, ANameIsDialledWhereWeResolveIt) {
  steps(kOneName, names_decide(*this));
}

Task<> rebinding(TcpTest& test) {
  test.dns.table["good.example"] = {"10.9.9.9"};
  CO_TRY(const std::string answer, co_await test.talk("203.0.113.5:8080", hello("good.example")));
  EXPECT_EQ(answer, std::string_view("\x15\x03\x03\x00\x02\x02\x31", 7));
  CO_TRY(const auto record, co_await test.world.wait_for(Outcome::kDenied));
  EXPECT_TRUE(record.reason.contains("10.9.9.9")) << record.reason;
  co_return ok();
}
TEST_F(TcpTest, ANameThatLeadsInsideIsNotDialled) {
  steps(kOneName, rebinding(*this));
}

Task<> hello_in_pieces(TcpTest& test) {
  const auto stream = test.inside->connect(test.reactor, "203.0.113.5:8080");
  for (const char c : hello("evil.example")) {
    CO_TRY_DO(co_await stream->write(std::string_view{&c, 1}));
    CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{1}));
  }
  CO_TRY(const std::string answer, co_await read_to_end(*stream));
  EXPECT_EQ(answer.substr(0, 1), "\x15");
  EXPECT_EQ(test.good.connections, 0U);
  co_return ok();
}
TEST_F(TcpTest, AHelloInManySegmentsIsReadWhole) {
  steps(kOneName, hello_in_pieces(*this));
}

Task<> silence_opens_nothing(TcpTest& test) {
  // Nothing for longer than the proxy waits, then a forbidden name: the server never sees it.
  const auto stream = test.inside->connect(test.reactor, "203.0.113.5:8080");
  CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{600}));
  CO_TRY_DO(co_await stream->write(hello("evil.example")));
  CO_TRY(const std::string answer, co_await read_to_end(*stream));
  EXPECT_EQ(answer.substr(0, 1), "\x15");
  EXPECT_EQ(test.good.seen, "");
  co_return ok();
}
TEST_F(TcpTest, SilenceOpensNothing) {
  steps(R"({"mode":"allow-all","egress":{"trafficRules":[
    {"action":"deny","domains":["evil.example"]}]}})",
        silence_opens_nothing(*this));
}

Task<> server_first(TcpTest& test) {
  test.good.greeting = "220 hello\r\n";
  const auto stream = test.inside->connect(test.reactor, "203.0.113.5:8080");
  CO_TRY(const std::string greeting, co_await read_some(*stream));
  EXPECT_EQ(greeting, "220 hello\r\n");
  CO_TRY_DO(co_await stream->write("ehlo\r\n"));
  CO_TRY(const std::string answer, co_await read_some(*stream));
  EXPECT_EQ(answer, "ehlo\r\n");
  const auto liar = test.inside->connect(test.reactor, "203.0.113.5:8080");
  CO_TRY_DO(co_await read_some(*liar));
  CO_TRY_DO(co_await liar->write(hello("evil.example")));
  CO_TRY(const std::string rest, co_await read_to_end(*liar));
  EXPECT_EQ(rest, "<ECONNRESET>");
  EXPECT_EQ(test.good.seen, "ehlo\r\n");
  co_return ok();
}
TEST_F(TcpTest, AServerMaySpeakFirstAndTheClientIsStillLookedAt) {
  steps(R"({"mode":"allow-all","egress":{"trafficRules":[
    {"action":"deny","domains":["evil.example"]}]}})",
        server_first(*this));
}

Task<> rules_cut(TcpTest& test) {
  const auto stream = test.inside->connect(test.reactor, "203.0.113.5:8080");
  CO_TRY_DO(co_await stream->write("hi"));
  CO_TRY_DO(co_await read_some(*stream));
  test.proxy->set_rules(test.rules(kAllowAll));
  CO_TRY_DO(co_await stream->write("still"));
  CO_TRY(const std::string still, co_await read_some(*stream));
  EXPECT_EQ(still, "still");
  test.proxy->set_rules(test.rules(kBlockAll));
  CO_TRY(const std::string rest, co_await read_to_end(*stream));
  EXPECT_EQ(rest, "<ECONNRESET>");
  CO_TRY(const auto record, co_await test.world.wait_for(Outcome::kDenied));
  EXPECT_TRUE(record.reason.contains("cut by new rules")) << record.reason;
  EXPECT_EQ(record.bytes_in, 7U);
  test.proxy->set_rules(test.rules(kAllowAll));
  const auto other = test.inside->connect(test.reactor, "203.0.113.5:8080");
  CO_TRY_DO(co_await other->write("hi"));
  CO_TRY_DO(co_await read_some(*other));
  test.proxy->detach("sb-one");
  CO_TRY(const std::string gone, co_await read_to_end(*other));
  EXPECT_EQ(gone, "<ECONNRESET>");
  co_return ok();
}
TEST_F(TcpTest, NewRulesAndLeavingCutWhatIsOpen) {
  steps(kAllowAll, rules_cut(*this));
}

Task<> limited(TcpTest& test) {
  const auto first = test.inside->connect(test.reactor, "203.0.113.5:8080");
  CO_TRY_DO(co_await first->write("1"));
  CO_TRY_DO(co_await read_some(*first));
  const auto second = test.inside->connect(test.reactor, "203.0.113.5:8080");
  CO_TRY_DO(co_await second->write("2"));
  CO_TRY_DO(co_await read_some(*second));
  CO_TRY(const std::string third, co_await test.talk("203.0.113.5:8080", "3"));
  EXPECT_EQ(third, "<ECONNRESET>");
  CO_TRY(const auto record, co_await test.world.wait_for(Outcome::kDenied));
  EXPECT_EQ(record.origin, "limit");
  co_return ok();
}
TEST_F(TcpTest, ConnectionsAreCountedAndLimited) {
  limits.connections = 2;
  steps(kAllowAll, limited(*this));
}

Task<> asked(TcpTest& test) {
  CO_TRY(std::string answer, co_await test.talk("203.0.113.5:8080", "\x01x"));
  EXPECT_EQ(answer, "<ECONNRESET>");
  EXPECT_EQ(test.world.questions.back().what, "tcp 203.0.113.5:8080");
  EXPECT_EQ(test.world.questions.back().rule, "careful");
  test.world.approve = true;
  CO_TRY(answer, co_await test.talk("203.0.113.5:8080", "\x01x"));
  EXPECT_EQ(answer, "\x01x");
  co_return ok();
}
TEST_F(TcpTest, ARuleThatAsksWaitsForTheAnswer) {
  steps(kCareful, asked(*this));
}

Task<> peers(TcpTest& test) {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  test.world.peer = Fd{ends[0]};
  io::FdStream peer{test.reactor, Fd{ends[1]}};
  CO_TRY(const std::string answer, co_await test.ask_dns("db.atoll.internal", egress::DnsType::kA));
  const auto read = egress::read_dns_answer(answer);
  EXPECT_TRUE(read && read->records.size() == 1);
  if (!read || read->records.empty()) {
    co_return ok();
  }
  const std::string target = concat(read->records[0].address.text(), ":8080");
  const auto stream = test.inside->connect(test.reactor, target);
  CO_TRY_DO(co_await stream->write("hello peer"));
  CO_TRY(const std::string got, co_await read_some(peer));
  EXPECT_EQ(got, "hello peer");
  CO_TRY(const auto record, co_await test.world.wait_for(Outcome::kOpen, "peer"));
  EXPECT_EQ(record.name, "db.atoll.internal");
  test.world.has_peer = false;
  test.proxy->set_rules(test.rules(kAllowAll));
  CO_TRY(const std::string rest, co_await read_to_end(*stream));
  EXPECT_EQ(rest, "<ECONNRESET>");
  CO_TRY(const std::string stranger, co_await test.talk("10.201.0.77:8080", "\x01"));
  EXPECT_EQ(stranger, "<ECONNRESET>");
  co_return ok();
}
TEST_F(TcpTest, APeerIsReachedByItsNameOnlyAndCutWithItsGroup) {
  steps(kAllowAll, peers(*this));
}

Task<> pinned(TcpTest& test) {
  CO_TRY(std::string answer, co_await test.talk("203.0.113.5:8080", "SSH-2.0-x\r\n"));
  EXPECT_EQ(answer, "<ECONNRESET>");
  CO_TRY_DO(co_await test.ask_dns("good.example", egress::DnsType::kA));
  CO_TRY(answer, co_await test.talk("203.0.113.5:8080", "SSH-2.0-x\r\n"));
  EXPECT_EQ(answer, "SSH-2.0-x\r\n");
  co_return ok();
}
TEST_F(TcpTest, AConnectionWithoutANameHasTheOneItsAddressWasResolvedFrom) {
  steps(kOneName, pinned(*this));
}

Task<> noted(TcpTest& test) {
  CO_TRY_DO(co_await test.talk("203.0.113.5:8080", hello("seen.example")));
  CO_TRY(const auto record, co_await test.world.wait_for(Outcome::kAllowed));
  EXPECT_EQ(record.name, "seen.example");
  EXPECT_EQ(record.protocol, egress::AppProtocol::kTls);
  co_return ok();
}
TEST_F(TcpTest, WhatPassesUnjudgedIsStillNoted) {
  steps(kAllowAll, noted(*this));
}

Task<> blind(TcpTest& test) {
  CO_TRY(std::string answer, co_await test.talk("203.0.113.5:8080", hello("good.example")));
  EXPECT_EQ(answer.substr(0, 1), "\x15");
  CO_TRY(const auto record, co_await test.world.wait_for(Outcome::kDenied));
  EXPECT_EQ(record.rule, "methods");
  // No handler for HTTP here: closed, and it says so.
  CO_TRY(answer,
         co_await test.talk("203.0.113.5:8080", "GET / HTTP/1.1\r\nHost: good.example\r\n\r\n"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 ")) << answer;
  CO_TRY(answer, co_await test.talk("203.0.113.5:8080", "\x01\x02"));
  EXPECT_EQ(answer, "<ECONNRESET>");
  EXPECT_EQ(test.good.connections, 0U);
  co_return ok();
}
TEST_F(TcpTest, WhatARuleCannotSeeIsRefused) {
  steps(R"({"mode":"allow-all","egress":{"protocolRules":[
    {"name":"methods","protocol":"http","ports":[{"port":8080}],
     "http":{"methods":{"allowed":["GET"]}}}]}})",
        blind(*this));
}

// Takes the connection, logs in, and connects where it is told.
Task<> socks5_server(io::Listener& listener, std::string& transcript) {
  CO_TRY(const auto stream, co_await listener.accept());
  CO_TRY(const std::string greeting, co_await read_some(*stream));
  EXPECT_EQ(greeting, std::string_view("\5\2\0\2", 4));
  CO_TRY_DO(co_await stream->write("\5\2"));
  CO_TRY(const std::string login, co_await read_some(*stream));
  EXPECT_EQ(login, std::string_view("\1\4user\6secret", 13));
  CO_TRY_DO(co_await stream->write(std::string_view{"\1\0", 2}));
  CO_TRY(transcript, co_await read_some(*stream));
  CO_TRY_DO(co_await stream->write(std::string_view{"\5\0\0\1\0\0\0\0\0\0", 10}));
  CO_TRY(const std::string payload, co_await read_some(*stream));
  CO_TRY_DO(co_await stream->write(concat("via proxy: ", payload)));
  co_return ok();
}

Task<> through_socks5(TcpTest& test, io::Listener& listener) {
  Scope scope{co_await current_context()};
  std::string request;
  scope.spawn("socks", socks5_server(listener, request));
  CO_TRY(const std::string answer, co_await test.talk("203.0.113.5:8080", "\x01payload"));
  EXPECT_EQ(answer, "via proxy: \x01payload");
  EXPECT_EQ(request, std::string_view("\5\1\0\1\xcb\0\x71\5\x1f\x90", 10));
  EXPECT_EQ(test.good.connections, 0U);
  co_return co_await scope.cancel_and_join();
}
TEST_F(TcpTest, EverythingGoesThroughTheUpstreamProxy) {
  io::Listener listener{reactor, *io::Listener::bind_tcp("203.0.113.9", 1080)};
  steps(R"({"mode":"allow-all","egress":{"proxy":
    {"type":"socks5","address":"203.0.113.9:1080","credentialRef":"proxy-login"}}})",
        through_socks5(*this, listener));
}

Task<> over_ipv6(TcpTest& test) {
  EchoServer six{test.reactor, "[2001:db8::5]:8080"};
  Scope scope{co_await current_context()};
  scope.spawn("six", six.run());
  CO_TRY(const std::string answer, co_await test.talk("[2001:db8::5]:8080", "\x01six"));
  EXPECT_EQ(answer, "\x01six");
  // A name with an address that does not answer and one that does.
  test.proxy->set_rules(test.rules(kOneName));
  test.dns.table["good.example"] = {"2001:db8::404", "203.0.113.5"};
  CO_TRY_DO(co_await test.ask_dns("good.example", egress::DnsType::kA));
  CO_TRY_DO(co_await test.ask_dns("good.example", egress::DnsType::kAaaa));
  CO_TRY(const std::string other, co_await test.talk("[2001:db8::5]:8080", hello("good.example")));
  EXPECT_EQ(other, hello("good.example"));
  co_return co_await scope.cancel_and_join();
}
TEST_F(TcpTest, BothFamiliesAndTheOneThatAnswers) {
  steps(kAllowAll, over_ipv6(*this));
}

}  // namespace
}  // namespace atl::proxy
