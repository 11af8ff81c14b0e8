// The resolver of a sandbox: what it may ask, what it gets, and where its questions go.
#include "base/random.h"
#include "proxy/dns/exchange.h"
#include "proxy/dns/peer_addresses.h"
#include "proxy/dns/pins.h"
#include "proxy/dns/servers.h"
#include "proxy/dns/tunnel_guard.h"
#include "proxy/test_proxy.h"

namespace atl::proxy::dns {
namespace {

using egress::DnsAnswer;
using egress::DnsCode;
using egress::DnsType;
using egress::Outcome;

constexpr std::string_view kAllowAll = R"({"mode":"allow-all"})";
constexpr std::string_view kSomeNames = R"({"mode":"block-all","egress":{"trafficRules":[
  {"action":"allow","domains":["*.good.example","*.google"]}]}})";

class DnsTest : public ProxyTest {
 public:
  TestDns upstream{reactor, kUpstreamDns};

  void steps(std::string_view policy, Task<> body) {
    upstream.table["www.good.example"] = {"203.0.113.5", "2001:db8::5"};
    upstream.table["big.good.example"] = {"203.0.113.5"};
    upstream.table["evil.example"] = {"203.0.113.6"};
    upstream.table["inside.good.example"] = {"10.9.9.9", "169.254.169.254", "::ffff:10.0.0.1"};
    upstream.table["mixed.good.example"] = {"203.0.113.5", "192.168.0.1"};
    run(rules(policy), 8080, beside(std::move(body)));
  }
  Task<> beside(Task<> body) {
    Scope scope{co_await current_context()};
    scope.spawn("upstream", upstream.run());
    auto result = co_await std::move(body);
    CO_TRY_DO(co_await scope.cancel_and_join());
    co_return std::move(result);
  }
  Task<DnsAnswer> ask(std::string name, DnsType type = DnsType::kA,
                      std::string server = "198.51.100.1:53") {
    Socket socket{reactor, inside->socket(SOCK_DGRAM)};
    const SocketAddress address = mapped_socket_address(at(server));
    CHECK(::connect(socket.fd.get(), address.get(), address.size) == 0);
    egress::DnsQuestion question{.id = 4711, .name = std::move(name), .type = type};
    const std::string asked = egress::write_dns_question(question);
    CO_TRY_DO(co_await send_all(socket, asked));
    CO_TRY(const std::string answer, co_await receive_some(socket, 4096));
    co_return read_matching_answer(answer, question);
  }
};

std::string summary(const Result<DnsAnswer>& answer) {
  if (!answer) {
    return answer.error().message;
  }
  std::string text = answer->code == DnsCode::kNoError     ? "ok"
                     : answer->code == DnsCode::kNameError ? "none"
                     : answer->code == DnsCode::kRefused   ? "refused"
                                                           : "failed";
  for (const auto& record : answer->records) {
    text += concat(" ", record.address.text());
  }
  return text;
}

Task<> restricted(DnsTest& test) {
  const std::pair<const char*, const char*> cases[] = {
      {"www.good.example", "ok 203.0.113.5"},
      {"WWW.Good.Example", "another question"},  // answered in lower case: not what we compare
      {"evil.example", "none"},
      {"secret-in-a-label.evil.example", "none"},
      {"inside.good.example", "none"},
      {"mixed.good.example", "ok 203.0.113.5"},
      {"dns.google", "none"},  // a wildcard does not open a resolver
      {"printer.local", "none"},
      {"router", "none"},
      {"localhost", "ok 127.0.0.1"},
      {"a.localhost", "ok 127.0.0.1"},
      {"one", "ok 10.200.0.2"},
      {"use-application-dns.net", "none"},
      {"1.0.168.192.in-addr.arpa", "none"},
  };
  for (const auto& [name, expected] : cases) {
    const auto answer = co_await test.ask(name);
    EXPECT_TRUE(summary(answer).contains(expected)) << name << ": " << summary(answer);
  }
  const auto six = co_await test.ask("www.good.example", DnsType::kAaaa, "[2001:db8::53]:53");
  EXPECT_EQ(summary(six), "ok 2001:db8::5");
  const auto before = test.upstream.asked.size();
  const auto https = co_await test.ask("www.good.example", DnsType::kHttps);
  EXPECT_EQ(summary(https), "ok");
  EXPECT_EQ(test.upstream.asked.size(), before);
  for (const auto& name : test.upstream.asked) {
    EXPECT_TRUE(name.ends_with("good.example")) << name;
  }
  CO_TRY(const auto denied, co_await test.world.wait_for([](const egress::FlowRecord& one) {
    return one.kind == "dns" && one.name == "evil.example";
  }));
  EXPECT_EQ(denied.outcome, Outcome::kDenied);
  EXPECT_EQ(denied.destination, "198.51.100.1:53");
  co_return ok();
}
TEST_F(DnsTest, OnlyNamesThatARuleCouldAllowAreAskedUpstream) {
  steps(kSomeNames, restricted(*this));
}

Task<> cached(DnsTest& test) {
  for (int i = 0; i < 3; ++i) {
    const auto answer = co_await test.ask("www.good.example");
    EXPECT_EQ(summary(answer), "ok 203.0.113.5");
  }
  EXPECT_EQ(test.upstream.asked.size(), 1U);
  const auto big = co_await test.ask("big.good.example");
  EXPECT_EQ(summary(big), "ok 203.0.113.5");
  EXPECT_EQ(test.upstream.over_tcp, 1U);
  co_return ok();
}
TEST_F(DnsTest, AnswersAreCachedAndTruncatedOnesAskedForOverTcp) {
  steps(kAllowAll, cached(*this));
}

Task<> ask_and_count(DnsTest& test, unsigned& answered) {
  const auto answer = co_await test.ask("www.good.example");
  answered += summary(answer) == "ok 203.0.113.5" ? 1 : 0;
  co_return ok();
}
Task<> at_once(DnsTest& test) {
  Scope scope{co_await current_context()};
  unsigned answered = 0;
  for (int i = 0; i < 20; ++i) {
    scope.spawn("ask", ask_and_count(test, answered));
  }
  CO_TRY_DO(co_await scope.join());
  EXPECT_EQ(answered, 20U);
  EXPECT_EQ(test.upstream.asked.size(), 1U);
  co_return ok();
}
TEST_F(DnsTest, AQuestionUnderWayIsAskedOnce) {
  steps(kAllowAll, at_once(*this));
}

Task<> tunnel(DnsTest& test) {
  unsigned refused = 0;
  for (int i = 0; i < 120; ++i) {
    const auto answer = co_await test.ask(concat(random_hex(50), ".t.evil.example"));
    refused += summary(answer) == "refused" ? 1 : 0;
  }
  EXPECT_GT(refused, 20U);
  const auto other = co_await test.ask("www.good.example");
  EXPECT_EQ(summary(other), "ok 203.0.113.5");
  CO_TRY_DO(co_await test.world.wait_for(
      [](const egress::FlowRecord& one) { return one.rule == "dns-tunnel"; }));
  co_return ok();
}
TEST_F(DnsTest, ATunnelOfManyNamesRunsDry) {
  steps(kAllowAll, tunnel(*this));
}

Task<> malformed(DnsTest& test) {
  Socket socket{test.reactor, test.inside->socket(SOCK_DGRAM)};
  const SocketAddress address = mapped_socket_address(at("8.8.8.8:53"));
  CHECK(::connect(socket.fd.get(), address.get(), address.size) == 0);
  CO_TRY_DO(co_await send_all(socket, "\x12\x34 this is no question at all"));
  CO_TRY(const std::string answer, co_await receive_some(socket, 4096));
  EXPECT_EQ(answer.substr(0, 2), "\x12\x34");
  EXPECT_EQ(answer[3], 1);
  CO_TRY_DO(co_await send_all(socket, "x"));  // too short to be answered; nothing breaks
  const auto next = co_await test.ask("www.good.example");
  EXPECT_EQ(summary(next), "ok 203.0.113.5");
  co_return ok();
}
TEST_F(DnsTest, WhatIsNoQuestionIsAnsweredAsSuch) {
  steps(kAllowAll, malformed(*this));
}

TEST(DnsParts, ResolvConfIsReadAsResolversReadIt) {
  const auto servers = read_resolv_conf(
      "# comment\nsearch x.example\nnameserver 192.0.2.1\n nameserver\t2001:db8::1\r\n"
      "nameserver fe80::1%eth0\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n");
  ASSERT_EQ(servers.size(), 3U);
  EXPECT_EQ(servers[0].text(), "192.0.2.1:53");
  EXPECT_EQ(servers[1].text(), "[2001:db8::1]:53");
  EXPECT_EQ(servers[2].text(), "192.0.2.2:53");
}

TEST(DnsParts, PinsAreBoundedAndForgetTheLongestUnused) {
  Pins pins;
  Instant now{};
  for (std::uint32_t i = 0; i < kMaxPinnedAddresses + 10; ++i) {
    pins.add(concat("h", i, ".example"), egress::Address::v4(0x01000000 + i), now);
  }
  EXPECT_EQ(pins.size(), kMaxPinnedAddresses);
  EXPECT_TRUE(pins.names(egress::Address::v4(0x01000000), now).empty());
  const auto last = egress::Address::v4(0x01000000 + kMaxPinnedAddresses);
  for (unsigned i = 0; i < 2 * kMaxNamesPerAddress; ++i) {
    pins.add(concat("n", i, ".example"), last, now);
  }
  EXPECT_EQ(pins.names(last, now).size(), kMaxNamesPerAddress);
  EXPECT_EQ(pins.names(last, now).front(), concat("n", 2 * kMaxNamesPerAddress - 1, ".example"));
  EXPECT_TRUE(pins.names(last, now + kPinTime).empty());
}

TEST(DnsParts, PeerAddressesStandForOneLabelEach) {
  PeerAddresses peers;
  const auto db = peers.address_of("db");
  const auto web = peers.address_of("web");
  EXPECT_EQ(peers.address_of("db"), db);
  EXPECT_NE(db, web);
  EXPECT_EQ(peers.label_of(*web), "web");
  EXPECT_FALSE(peers.label_of(egress::Address::v4(0x0ac90003)));
  EXPECT_FALSE(peers.label_of(egress::Address::v4(0x0ac90000)));
  for (std::size_t i = 0; i < kMaxPeerAddresses; ++i) {
    peers.address_of(concat("p", i));
  }
  EXPECT_FALSE(peers.address_of("one-too-many"));
}

TEST(DnsParts, AnAnswerToAnotherQuestionIsNotOurs) {
  const egress::DnsQuestion question{.id = 1, .name = "a.example"};
  const auto with = [&](egress::DnsQuestion other) {
    return read_matching_answer(egress::write_dns_answer(other, DnsCode::kNoError, {}, 512),
                                question)
        .has_value();
  };
  EXPECT_TRUE(with(question));
  EXPECT_FALSE(with({.id = 2, .name = "a.example"}));
  EXPECT_FALSE(with({.id = 1, .name = "b.example"}));
  EXPECT_FALSE(with({.id = 1, .name = "a.example", .type = DnsType::kTxt}));
}

}  // namespace
}  // namespace atl::proxy::dns
