// Policies from what was seen, drafts against what was seen, and explanations.
#include "egress/learn.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "egress/explain.h"
#include "egress/policy_json.h"

namespace atl::egress {
namespace {

Observation to_name(std::string name, std::uint16_t port = 443,
                    AppProtocol protocol = AppProtocol::kTls) {
  Observation seen;
  seen.flow.name = std::move(name);
  seen.flow.port = port;
  seen.flow.protocol = protocol;
  return seen;
}

Observation to_address(std::string_view address, std::uint16_t port) {
  Observation seen;
  seen.flow.address = *Address::parse(address);
  seen.has_address = true;
  seen.flow.port = port;
  return seen;
}

std::string written(const Policy& policy) {
  return write_policy(policy).dump();
}

TEST(Learn, NamesComeBeforeAddressesAndOneRuleServesOnePort) {
  auto named = to_name("b.example.com");
  named.flow.address = *Address::parse("93.184.216.34");
  named.has_address = true;
  const auto lesson =
      learn({named, to_name("a.example.com"), to_name("a.example.com"),
             to_name("a.example.com", 80, AppProtocol::kHttp), to_address("93.184.216.34", 5432)},
            {});
  EXPECT_EQ(lesson.used, 5U);
  const Policy& policy = lesson.policy;
  EXPECT_EQ(policy.mode, Mode::kBlockAll);
  ASSERT_EQ(policy.traffic_rules.size(), 3U);
  EXPECT_EQ(policy.traffic_rules[0].name, "learned-tcp-5432-addresses");
  EXPECT_EQ(policy.traffic_rules[0].networks[0].text(), "93.184.216.34/32");
  EXPECT_EQ(policy.traffic_rules[1].name, "learned-http-80");
  EXPECT_EQ(policy.traffic_rules[2].domains.size(), 2U);
  EXPECT_TRUE(policy.traffic_rules[2].networks.empty());
  // The document is one that the API takes.
  const auto again = read_policy(write_policy(policy), "network");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, policy);
}

TEST(Learn, WhatIsLearnedAllowsWhatWasSeenAndNothingElse) {
  const std::vector<Observation> seen{to_name("a.example.com"), to_name("b.example.com"),
                                      to_address("93.184.216.34", 5432)};
  const auto lesson = learn(seen, {});
  const NamedPolicy stack[] = {{"sandbox", &lesson.policy}};
  EXPECT_TRUE(replay(stack, seen).changes.empty());
  const std::vector<Observation> others{to_name("c.example.com"), to_name("a.example.com", 8443),
                                        to_name("a.example.com", 443, AppProtocol::kHttp),
                                        to_address("93.184.216.35", 5432)};
  const auto result = replay(stack, others);
  EXPECT_EQ(result.changes.size(), 4U);
  EXPECT_TRUE(result.denies_what_was_allowed());
}

TEST(Learn, WildcardsNeedSiblingsAndTheWish) {
  std::vector<Observation> seen;
  for (const auto* name :
       {"a.cdn.example.com", "b.cdn.example.com", "c.cdn.example.com", "x.example.org",
        "y.example.org", "one.co.uk", "two.co.uk", "three.co.uk", "cdn.example.com"}) {
    seen.push_back(to_name(name));
  }
  EXPECT_EQ(written(learn(seen, {}).policy).find('*'), std::string::npos);
  const auto text = written(learn(seen, {.wildcards = true}).policy);
  EXPECT_NE(text.find("*.cdn.example.com"), std::string::npos) << text;
  EXPECT_EQ(text.find("\"cdn.example.com\""), std::string::npos) << text;
  EXPECT_EQ(text.find("*.example.org"), std::string::npos) << text;
  EXPECT_EQ(text.find("*.co.uk"), std::string::npos) << text;
}

TEST(Learn, WhatWasRefusedIsLeftOutUnlessAskedFor) {
  auto refused = to_name("evil.example");
  refused.allowed = false;
  EXPECT_TRUE(learn({refused}, {}).policy.traffic_rules.empty());
  EXPECT_EQ(learn({refused}, {}).left_out, 1U);
  EXPECT_EQ(learn({refused}, {.include_denied = true}).policy.traffic_rules.size(), 1U);
}

TEST(Learn, ManyNamesAreSeveralRules) {
  std::vector<Observation> seen;
  for (int i = 0; i < 600; ++i) {
    seen.push_back(to_name(concat("h", i, ".example.com")));
  }
  const auto lesson = learn(seen, {});
  EXPECT_EQ(lesson.policy.traffic_rules.size(), 3U);
  EXPECT_TRUE(read_policy(write_policy(lesson.policy), "network"));
}

TEST(Replay, SaysWhatADraftWouldOpen) {
  auto refused = to_name("a.example.com");
  refused.allowed = false;
  const Policy open;
  const NamedPolicy stack[] = {{"sandbox", &open}};
  const auto result = replay(stack, {refused});
  ASSERT_EQ(result.changes.size(), 1U);
  EXPECT_FALSE(result.denies_what_was_allowed());
  EXPECT_EQ(result.changes[0].now.action, Action::kAllow);
}

TEST(Explain, NamesThePolicyTheRuleAndTheRemedy) {
  const auto floor = read_policy(*Json::parse(R"({"mode":"allow-all","egress":{"trafficRules":[
        {"name":"no-db","action":"deny","ports":[{"port":5432}]}]}})"),
                                 "");
  ASSERT_TRUE(floor) << floor.error().message;
  const Policy own{.mode = Mode::kBlockAll};
  const NamedPolicy stack[] = {{"operator", &*floor}, {"sandbox", &own}};
  Flow flow{.port = 5432, .name = "db.example.com"};
  const auto both = explain(stack, flow, std::nullopt);
  EXPECT_EQ(both.decision.action, Action::kDeny);
  EXPECT_EQ(both.origin, "sandbox");
  ASSERT_EQ(both.layers.size(), 2U);
  EXPECT_EQ(both.layers[0].decision.rule, "no-db");
  ASSERT_EQ(both.advice.size(), 2U);
  EXPECT_NE(both.advice[0].find("rule no-db of the operator policy"), std::string::npos);
  EXPECT_NE(both.advice[1].find(R"("domains": ["db.example.com"])"), std::string::npos);
  flow.address = *Address::parse("10.0.0.1");
  const auto closed = explain(stack, flow, "10.0.0.1 is a private address");
  EXPECT_EQ(closed.origin, "class");
  EXPECT_NE(closed.decision.reason.find("private"), std::string::npos);
}

TEST(Explain, AllowedAndAsked) {
  const Policy open;
  const NamedPolicy stack[] = {{"sandbox", &open}};
  EXPECT_EQ(explain(stack, {.port = 1, .name = "x.example"}, {}).decision.action, Action::kAllow);
  Policy asks;
  asks.traffic_rules.push_back({.name = "q", .action = Action::kAsk});
  asks.traffic_rules[0].domains.push_back(*DomainPattern::parse("x.example"));
  const NamedPolicy other[] = {{"sandbox", &asks}};
  const auto asked = explain(other, {.port = 1, .name = "x.example"}, {});
  EXPECT_EQ(asked.decision.action, Action::kAsk);
  ASSERT_EQ(asked.advice.size(), 1U);
  EXPECT_NE(asked.advice[0].find("atoll approvals"), std::string::npos);
}

}  // namespace
}  // namespace atl::egress
