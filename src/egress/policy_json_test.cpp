#include "egress/policy_json.h"

#include <gtest/gtest.h>

namespace atl::egress {
namespace {

Result<Policy> read(std::string_view text) {
  const auto json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return read_policy(*json, "network", {"credentialBindings"});
}

constexpr std::string_view kWhole = R"({
  "mode": "block-all",
  "egress": {
    "trafficRules": [
      {"name": "pypi", "action": "allow", "domains": ["pypi.example", "*.Files.example"],
       "ports": [{"port": 443}, {"port": 8000, "endPort": 8100, "protocol": "tcp"}]},
      {"action": "ask", "cidrs": ["203.0.113.0/24"], "appProtocols": ["ssh", "postgres"]}],
    "protocolRules": [
      {"protocol": "http", "domains": ["api.example"], "tlsMode": "terminate-reoriginate",
       "httpMatch": {"methods": ["GET"], "query": [{"name": "q", "present": false}]},
       "http": {"methods": {"allowed": ["GET"]},
                "paths": {"denied": ["/x"], "allowedPrefixes": ["/repos/"]}}},
      {"name": "tools", "protocol": "mcp", "domains": ["mcp.example"],
       "mcp": {"tools": {"denied": ["delete_repo"]},
               "arguments": [{"tool": "read", "pointer": "/path", "pattern": "/tmp/.*",
                              "action": "deny"}]}}],
    "credentialRules": [
      {"credentialRef": "gh", "protocol": "https", "tlsMode": "terminate-reoriginate",
       "failurePolicy": "fail-open", "rollout": "disabled", "domains": ["api.example"]}],
    "proxy": {"type": "socks5", "address": "[2001:db8::1]:1080", "credentialRef": "p"}},
  "credentialBindings": []})";

TEST(PolicyDocument, IsReadWholeAndComesBackTheSame) {
  const auto policy = read(kWhole);
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_EQ(policy->mode, Mode::kBlockAll);
  ASSERT_EQ(policy->traffic_rules.size(), 2U);
  EXPECT_EQ(policy->traffic_rules[0].domains[1].text(), "*.files.example");
  EXPECT_EQ(policy->traffic_rules[0].ports[1].last, 8100);
  EXPECT_EQ(policy->traffic_rules[1].action, Action::kAsk);
  EXPECT_TRUE(policy->protocol_rules[1].arguments[0].deny);
  EXPECT_TRUE(policy->credential_rules[0].fail_open);
  EXPECT_FALSE(policy->credential_rules[0].enabled);
  EXPECT_EQ(policy->proxy->host, "2001:db8::1");
  const auto again = read_policy(write_policy(*policy), "network");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *policy);
}

TEST(PolicyDocument, MistakesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "network.mode"},
      {R"({"mode":"allow"})", "allow-all, block-all"},
      {R"({"mode":"allow-all","egres":{}})", "network.egres"},
      {R"({"mode":"allow-all","egress":{"trafficRules":[{"action":"allow"}]}})", "needs cidrs"},
      {R"({"mode":"allow-all","egress":{"trafficRules":[{"domains":["a.b"]}]}})", "action"},
      {R"({"mode":"allow-all","egress":{"trafficRules":[{"action":"deny","domains":["a b"]}]}})",
       "is no domain"},
      {R"({"mode":"allow-all","egress":{"trafficRules":[{"action":"deny","cidrs":["1.2.3.4/8"]}]}})",
       "no range"},
      {R"({"mode":"allow-all","egress":{"trafficRules":[{"action":"deny","ports":[{"port":0}]}]}})",
       "port"},
      {R"({"mode":"allow-all","egress":{"trafficRules":[
          {"action":"deny","ports":[{"port":9,"endPort":8}]}]}})",
       "endPort"},
      {R"({"mode":"allow-all","egress":{"trafficRules":[{"name":"a","action":"deny","cidrs":["::/0"]},
          {"name":"a","action":"deny","cidrs":["::/0"]}]}})",
       "two rules"},
      {R"({"mode":"allow-all","egress":{"protocolRules":[{"protocol":"mcp","http":{}}]}})",
       "another protocol"},
      {R"({"mode":"allow-all","egress":{"credentialRules":[{"credentialRef":"x"}]}})", "domains"},
      {R"({"mode":"allow-all","egress":{"proxy":{"type":"socks5","address":"host"}}})",
       "host:port"},
      {R"({"mode":"allow-all","egress":{"trafficRules":[{"action":"deny","cidrs":["::/0"]}],
          "deniedCidrs":["::/0"]}})",
       "combined"},
  };
  for (const auto& [text, message] : cases) {
    const auto policy = read(text);
    ASSERT_FALSE(policy) << text;
    EXPECT_NE(policy.error().message.find(message), std::string::npos)
        << policy.error().message << " for " << text;
  }
}

TEST(PolicyDocument, OldListsAreFoldedAsTheContractSays) {
  const auto blocked = read(R"({"mode":"block-all","egress":{"allowedDomains":["a.example"],
      "allowedPorts":[{"port":443}],"deniedDomains":["b.example"]}})");
  ASSERT_TRUE(blocked) << blocked.error().message;
  ASSERT_EQ(blocked->traffic_rules.size(), 1U);
  EXPECT_EQ(blocked->traffic_rules[0].action, Action::kAllow);
  EXPECT_EQ(blocked->traffic_rules[0].domains.size(), 1U);
  EXPECT_EQ(blocked->traffic_rules[0].ports.size(), 1U);
  const auto open = read(R"({"mode":"allow-all","egress":{"allowedDomains":["a.example"],
      "deniedDomains":["b.example"],"deniedPorts":[{"port":25}]}})");
  ASSERT_TRUE(open);
  ASSERT_EQ(open->traffic_rules.size(), 2U);
  EXPECT_EQ(open->traffic_rules[0].action, Action::kDeny);
}

}  // namespace
}  // namespace atl::egress
