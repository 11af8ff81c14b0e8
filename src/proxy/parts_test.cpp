// The parts of the proxy that need no socket: buckets, allowances, SOCKS5, verdicts, hosts.
#include <gtest/gtest.h>

#include "base/json.h"
#include "egress/policy_json.h"
#include "proxy/allowance.h"
#include "proxy/first_bytes.h"
#include "proxy/host_guard.h"
#include "proxy/judge.h"
#include "proxy/refusal.h"
#include "proxy/socks5.h"

namespace atl::proxy {
namespace {

using namespace std::chrono_literals;
using egress::Action;

TEST(TokenBucket, GivesItsRateAndNoMore) {
  TokenBucket bucket{1000, 500};
  Instant now{};
  std::int64_t passed = 0;
  for (int i = 0; i < 1000; ++i) {  // ten seconds
    if (const auto available = bucket.available(now); available > 0) {
      bucket.take(available);
      passed += available;
    }
    now += 10ms;
  }
  EXPECT_NEAR(static_cast<double>(passed), 10'500, 150);
  bucket.take(2000);
  EXPECT_LE(bucket.available(now), 0);
  const auto wait = bucket.until_available(now);
  EXPECT_GT(wait, 1500ms);
  EXPECT_GT(bucket.available(now + wait), 0);
  TokenBucket open;
  open.take(1 << 30);
  EXPECT_EQ(open.available(now), TokenBucket::kNoLimit);
}

TEST(Allowance, TheTeamsIsSharedByItsSandboxesAndGoesWithTheLast) {
  Teams teams;
  auto first = teams.find("a");
  EXPECT_EQ(first, teams.find("a"));
  EXPECT_NE(first, teams.find("b"));
  first->most_connections = 1;
  const auto sandbox = std::make_shared<Allowance>();
  {
    const Place place{sandbox, first};
    EXPECT_TRUE(teams.find("a")->is_full());
  }
  EXPECT_FALSE(first->is_full());
  first.reset();
  EXPECT_EQ(teams.find("a")->most_connections, 0U);
}

TEST(Socks5Client, TakesEveryFormOfReplyAndNothingElse) {
  const Endpoint target{*egress::Address::parse("2001:db8::7"), 443};
  Socks5Client client{target, "", ""};
  EXPECT_EQ(client.take_output(), std::string_view("\5\1\0", 3));
  ASSERT_TRUE(client.feed(std::string_view{"\5\0", 2}));
  EXPECT_EQ(client.take_output().size(), 22U);
  EXPECT_EQ(client.wanted_bytes(), 4U);
  ASSERT_TRUE(client.feed(std::string_view{"\5\0\0\3", 4}));
  EXPECT_EQ(client.wanted_bytes(), 1U);
  ASSERT_TRUE(client.feed("\x09"));
  EXPECT_EQ(client.wanted_bytes(), 11U);
  ASSERT_TRUE(client.feed("localhost12"));
  EXPECT_EQ(client.wanted_bytes(), 0U);

  for (const std::string_view answer :
       {std::string_view{"\4\0", 2}, std::string_view{"\5\2", 2}, std::string_view{"\5\xff", 2}}) {
    Socks5Client other{target, "", ""};
    EXPECT_FALSE(other.feed(answer));
  }
  for (const std::string_view reply :
       {std::string_view{"\5\5\0\1", 4}, std::string_view{"\5\0\1\1", 4},
        std::string_view{"\5\0\0\2", 4}, std::string_view{"\4\0\0\1", 4}}) {
    Socks5Client other{target, "", ""};
    ASSERT_TRUE(other.feed(std::string_view{"\5\0", 2}));
    EXPECT_FALSE(other.feed(reply));
  }
}

egress::SandboxRules rules_of(std::string_view json) {
  egress::SandboxRules rules;
  rules.layers.push_back({"sandbox", *egress::read_policy(*Json::parse(json), "network")});
  return rules;
}

egress::Flow flow_to(std::string name, std::string_view address, std::uint16_t port,
                     egress::AppProtocol protocol = egress::AppProtocol::kTls) {
  return {.address = *egress::Address::parse(address),
          .port = port,
          .name = std::move(name),
          .protocol = protocol};
}

TEST(Judge, NoPolicyAndNoRuleAreClosed) {
  EXPECT_EQ(judge({}, flow_to("", "192.0.2.1", 80), nullptr).action, Action::kDeny);
  EXPECT_TRUE(is_restricted({}));
}

TEST(Judge, ANameIsDialledByNameUnlessItsAddressIsWhatWasOpened) {
  const auto rules = rules_of(R"({"mode":"block-all","egress":{"trafficRules":[
    {"action":"allow","domains":["a.example"]},{"action":"allow","cidrs":["192.0.2.0/24"]}]}})");
  EXPECT_TRUE(judge(rules, flow_to("a.example", "198.51.100.1", 443), nullptr).by_name);
  EXPECT_FALSE(judge(rules, flow_to("b.example", "192.0.2.7", 443), nullptr).by_name);
  EXPECT_EQ(judge(rules, flow_to("b.example", "198.51.100.1", 443), nullptr).action, Action::kDeny);
  const auto open = rules_of(R"({"mode":"allow-all"})");
  EXPECT_FALSE(judge(open, flow_to("a.example", "198.51.100.1", 443), nullptr).by_name);
}

TEST(Judge, OtherWaysToResolveAreClosedWhereTrafficIs) {
  const auto rules = rules_of(R"({"mode":"block-all","egress":{"trafficRules":[
    {"action":"allow","cidrs":["0.0.0.0/0"]},{"action":"allow","domains":["dns.quad9.net","*"]}]}})");
  EXPECT_EQ(judge(rules, flow_to("", "9.9.9.9", 853), nullptr).rule, "encrypted-dns");
  EXPECT_EQ(judge(rules, flow_to("dns.google", "8.8.8.8", 443), nullptr).rule, "encrypted-dns");
  EXPECT_EQ(judge(rules, flow_to("x.cloudflare-dns.com", "1.1.1.1", 443), nullptr).rule,
            "encrypted-dns");
  EXPECT_EQ(judge(rules, flow_to("dns.quad9.net", "9.9.9.9", 443), nullptr).action, Action::kAllow);
  EXPECT_EQ(judge(rules_of(R"({"mode":"allow-all"})"), flow_to("", "9.9.9.9", 853), nullptr).action,
            Action::kAllow);
}

TEST(Judge, EachProtocolGoesToItsHandlerWhereARuleAsks) {
  const auto rules = rules_of(R"({"mode":"allow-all","egress":{"credentialRules":[
    {"credentialRef":"k","protocol":"ssh","domains":["git.example"]},
    {"credentialRef":"r","protocol":"redis","domains":["git.example"]},
    {"credentialRef":"t","protocol":"https","tlsMode":"terminate-reoriginate",
     "domains":["git.example"]}]}})");
  const egress::Classified contents;
  const auto handling = [&](std::string name, egress::AppProtocol protocol) {
    return judge(rules, flow_to(std::move(name), "192.0.2.1", 22, protocol), &contents).handling;
  };
  EXPECT_EQ(handling("git.example", egress::AppProtocol::kSsh), Handling::kSsh);
  EXPECT_EQ(handling("git.example", egress::AppProtocol::kRedis), Handling::kRedis);
  EXPECT_EQ(handling("git.example", egress::AppProtocol::kPostgres), Handling::kRelay);
  EXPECT_EQ(handling("git.example", egress::AppProtocol::kTls), Handling::kHttp);
  EXPECT_EQ(handling("other.example", egress::AppProtocol::kSsh), Handling::kRelay);
  EXPECT_EQ(handling("other.example", egress::AppProtocol::kTls), Handling::kRelay);
  EXPECT_EQ(handling("other.example", egress::AppProtocol::kHttp), Handling::kHttp);
}

constexpr std::string_view kOneHostChecked = R"({"mode":"allow-all","egress":{"protocolRules":[
  {"name":"methods","protocol":"http","domains":["api.example"],"ports":[{"port":8443}],
   "tlsMode":"terminate-reoriginate","http":{"methods":{"denied":["DELETE"]}}}]}})";

TEST(Judge, AnotherNameOrNoneIsNoWayPastAProtocolRule) {
  const auto rules = rules_of(kOneHostChecked);
  const egress::Classified contents{.protocol = egress::AppProtocol::kTls,
                                    .hello = egress::ClientHello{}};
  const auto other = judge(rules, flow_to("other.example", "192.0.2.1", 8443), &contents);
  EXPECT_EQ(other.action, Action::kAllow);
  EXPECT_TRUE(other.by_name);
  EXPECT_EQ(judge(rules, flow_to("", "192.0.2.1", 8443), &contents).action, Action::kDeny);
  EXPECT_EQ(judge(rules, flow_to("", "192.0.2.1", 443), &contents).action, Action::kAllow);
  auto opened = rules;
  opened.layers[0].policy.traffic_rules.push_back(
      {.action = Action::kAllow, .networks = {*egress::Network::parse("192.0.2.0/24")}});
  EXPECT_EQ(judge(opened, flow_to("", "192.0.2.1", 8443), &contents).action, Action::kAllow);
  for (const auto protocol : {egress::AppProtocol::kSsh, egress::AppProtocol::kAmqp,
                              egress::AppProtocol::kMongodb, egress::AppProtocol::kRedis}) {
    EXPECT_EQ(judge(rules, flow_to("api.example", "192.0.2.1", 8443, protocol), &contents).action,
              Action::kDeny);
    EXPECT_EQ(judge(rules, flow_to("other.example", "192.0.2.1", 8443, protocol), &contents).action,
              Action::kAllow);
  }
}

TEST(Judge, DatagramsToAHostThatAProtocolRuleCoversAreClosed) {
  const auto rules = rules_of(kOneHostChecked);
  const auto action = [&](std::string name, std::uint16_t port, std::vector<std::string> names) {
    auto flow = flow_to(std::move(name), "192.0.2.1", port, egress::AppProtocol::kUdp);
    flow.transport = egress::Transport::kUdp;
    return judge_datagrams(rules, flow, names).action;
  };
  EXPECT_EQ(action("api.example", 8443, {}), Action::kDeny);
  EXPECT_EQ(action("", 8443, {}), Action::kDeny);
  EXPECT_EQ(action("other.example", 8443, {"other.example", "api.example"}), Action::kDeny);
  EXPECT_EQ(action("other.example", 8443, {"other.example"}), Action::kAllow);
  EXPECT_EQ(action("api.example", 9000, {}), Action::kAllow);
}

TEST(Judge, AnEncryptedHelloIsOpenedWhereItCanBe) {
  auto rules = rules_of(R"({"mode":"block-all","egress":{"trafficRules":[
    {"action":"allow","domains":["a.example"]}]}})");
  const egress::Classified contents{.protocol = egress::AppProtocol::kTls,
                                    .hello = egress::ClientHello{.encrypted_hello = true}};
  const auto handling = [&] {
    return judge(rules, flow_to("a.example", "192.0.2.1", 443), &contents).handling;
  };
  EXPECT_EQ(handling(), Handling::kRelay);
  const auto checked = rules_of(kOneHostChecked);
  rules.layers[0].policy.protocol_rules = checked.layers[0].policy.protocol_rules;
  EXPECT_EQ(handling(), Handling::kHttp);
  rules.layers[0].policy.mode = egress::Mode::kAllowAll;
  EXPECT_EQ(handling(), Handling::kRelay);
}

TEST(FirstBytes, TheHostIsTheOnlyOneAndANormalName) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"GET / HTTP/1.1\r\nHost: A.Example:80\r\n\r\n", "a.example"},
      {"GET / HTTP/1.1\r\nX: y\r\nhost:a.example.\r\n\r\nHost: b.example", "a.example"},
      {"GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n", ""},
      {"GET / HTTP/1.1\r\n\r\nHost: a.example\r\n\r\n", ""},
      {"GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", ""},
      {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", ""},
      {"GET / HTTP/1.1\r\nHost: a example\r\n\r\n", ""},
  };
  for (const auto& [head, host] : cases) {
    EXPECT_EQ(host_of_head(head), host) << head;
  }
}

TEST(HostGuard, KnowsTheHostsOwnAddresses) {
  const auto own = own_addresses();
  ASSERT_TRUE(own);
  EXPECT_NE(std::ranges::find(*own, *egress::Address::parse("127.0.0.1")), own->end());
  const HostGuard guard{{}};
  EXPECT_TRUE(guard.refusal(*egress::Address::parse("127.0.0.1")));
  EXPECT_FALSE(guard.refusal(*egress::Address::parse("1.1.1.1")));
}

TEST(Refusal, HttpSaysWhyAndWhereToLook) {
  egress::FlowRecord record;
  record.id = "flow-1";
  record.rule = "only-git";
  record.origin = "template";
  record.reason = "no rule allows it";
  const auto text = refusal_bytes({.protocol = egress::AppProtocol::kHttp}, record);
  for (const char* part :
       {"403", "only-git", "template", "no rule allows it", "atoll why flow-1"}) {
    EXPECT_TRUE(text.contains(part)) << part;
  }
  EXPECT_EQ(refusal_bytes({.protocol = egress::AppProtocol::kSsh}, record), "");
}

}  // namespace
}  // namespace atl::proxy
