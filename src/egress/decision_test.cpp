#include "egress/decision.h"

#include <gtest/gtest.h>

namespace atl::egress {
namespace {

Flow flow(std::string name, std::uint16_t port = 443, AppProtocol protocol = AppProtocol::kTls) {
  return {.address = *Address::parse("8.8.8.8"),
          .port = port,
          .name = std::move(name),
          .protocol = protocol};
}

std::vector<DomainPattern> domains(std::initializer_list<const char*> texts) {
  std::vector<DomainPattern> patterns;
  for (const auto* text : texts) {
    patterns.push_back(*DomainPattern::parse(text));
  }
  return patterns;
}

// A stack of one or two, kept alive with its policies.
struct Stack {
  explicit Stack(Policy own) : own_(std::move(own)) { named_.push_back({"sandbox", &own_}); }
  Stack(Policy floor, Policy own) : floor_(std::move(floor)), own_(std::move(own)) {
    named_.push_back({"operator", &floor_});
    named_.push_back({"sandbox", &own_});
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  operator PolicyStack() const { return named_; }

 private:
  Policy floor_;
  Policy own_;
  std::vector<NamedPolicy> named_;
};

TEST(Decide, WithoutAnyPolicyNothingIsAllowed) {
  EXPECT_EQ(decide({}, flow("a.example")).action, Action::kDeny);
  EXPECT_FALSE(may_resolve({}, "a.example"));
}

TEST(Decide, TheFirstRuleThatMatchesElseTheMode) {
  const Stack stack{Policy{
      .mode = Mode::kBlockAll,
      .traffic_rules = {
          {.name = "no-admin", .action = Action::kDeny, .domains = domains({"admin.example.com"})},
          {.action = Action::kAllow,
           .domains = domains({"*.example.com"}),
           .ports = {{443, 443}}}}}};
  EXPECT_EQ(decide(stack, flow("api.example.com")).action, Action::kAllow);
  EXPECT_EQ(decide(stack, flow("api.example.com")).rule, "trafficRules[1]");
  const auto denied = decide(stack, flow("admin.example.com"));
  EXPECT_EQ(denied.action, Action::kDeny);
  EXPECT_EQ(denied.rule, "no-admin");
  EXPECT_EQ(decide(stack, flow("api.example.com", 80)).rule, "mode");
  EXPECT_EQ(decide(stack, flow("")).action, Action::kDeny);
  EXPECT_EQ(decide(stack, flow("")).reason,
            "no rule of the sandbox policy allows 8.8.8.8:443 (its name is unknown)");
}

TEST(Decide, AllKindsOfARuleMustMatch) {
  const Stack stack{Policy{.mode = Mode::kBlockAll,
                           .traffic_rules = {{.action = Action::kAllow,
                                              .networks = {*Network::parse("8.8.8.0/24")},
                                              .domains = domains({"dns.example"}),
                                              .ports = {{1, 1024, Transport::kTcp}},
                                              .app_protocols = {AppProtocol::kTls}}}}};
  EXPECT_EQ(decide(stack, flow("dns.example")).action, Action::kAllow);
  EXPECT_EQ(decide(stack, flow("other.example")).action, Action::kDeny);
  EXPECT_EQ(decide(stack, flow("dns.example", 8443)).action, Action::kDeny);
  EXPECT_EQ(decide(stack, flow("dns.example", 443, AppProtocol::kHttp)).action, Action::kDeny);
  auto elsewhere = flow("dns.example");
  elsewhere.address = *Address::parse("9.9.9.9");
  EXPECT_EQ(decide(stack, elsewhere).action, Action::kDeny);
  auto datagram = flow("dns.example");
  datagram.transport = Transport::kUdp;
  EXPECT_EQ(decide(stack, datagram).action, Action::kDeny);
}

TEST(Decide, NobodyAboveAFloorOpensWhatItCloses) {
  const Policy floor{
      .mode = Mode::kBlockAll,
      .traffic_rules = {
          {.name = "ours", .action = Action::kAllow, .domains = domains({"*.example.com"})}}};
  const Stack open{floor, Policy{}};
  EXPECT_EQ(decide(open, flow("a.example.com")).action, Action::kAllow);
  EXPECT_EQ(decide(open, flow("evil.example")).action, Action::kDeny);
  EXPECT_FALSE(may_resolve(open, "evil.example"));
  const Stack narrower{floor, Policy{.mode = Mode::kBlockAll}};
  EXPECT_EQ(decide(narrower, flow("a.example.com")).action, Action::kDeny);
}

TEST(Decide, ADenyWinsOverAnAskAndAnAskOverAnAllow) {
  const Policy asks{.traffic_rules = {{.action = Action::kAsk, .domains = domains({"a.example"})}}};
  EXPECT_EQ(decide(Stack{asks, Policy{}}, flow("a.example")).action, Action::kAsk);
  EXPECT_EQ(decide(Stack{asks, closed_policy()}, flow("a.example")).action, Action::kDeny);
}

TEST(Contents, AreAskedForOnlyWhereARuleNeedsThem) {
  const Stack plain{Policy{.traffic_rules = {{.action = Action::kDeny, .ports = {{25, 25}}}}}};
  EXPECT_FALSE(asks_for_contents(plain, Transport::kTcp, 443));
  const Stack named{Policy{
      .traffic_rules = {
          {.action = Action::kDeny, .domains = domains({"a.example"}), .ports = {{443, 443}}}}}};
  EXPECT_TRUE(asks_for_contents(named, Transport::kTcp, 443));
  EXPECT_FALSE(asks_for_contents(named, Transport::kTcp, 22));
}

TEST(Resolve, OnlyNamesThatSomeFlowCouldReach) {
  const Stack stack{Policy{.mode = Mode::kBlockAll,
                           .traffic_rules = {
                               {.action = Action::kDeny, .domains = domains({"no.example.com"})},
                               {.action = Action::kAllow, .domains = domains({"*.example.com"})},
                               {.action = Action::kAllow, .networks = {*Network::parse("1.1.1.1")}},
                           }}};
  EXPECT_TRUE(may_resolve(stack, "a.example.com"));
  EXPECT_FALSE(may_resolve(stack, "no.example.com"));
  EXPECT_FALSE(may_resolve(stack, "secret-in-a-label.evil.example"));
  const Stack open{Policy{
      .traffic_rules = {
          {.action = Action::kDeny, .domains = domains({"a.example"}), .ports = {{25, 25}}}}}};
  EXPECT_TRUE(may_resolve(open, "a.example"));
}

TEST(Interception, WhereARuleNeedsItAndNowhereElse) {
  const Stack stack{Policy{
      .protocol_rules = {{.domains = domains({"a.example"}), .tls_mode = TlsMode::kTerminate},
                         {.name = "blind", .domains = domains({"b.example"})}},
      .credential_rules = {{.credential_ref = "x",
                            .tls_mode = TlsMode::kTerminate,
                            .domains = domains({"c.example"})},
                           {.credential_ref = "x",
                            .enabled = false,
                            .tls_mode = TlsMode::kTerminate,
                            .domains = domains({"d.example"})}}}};
  EXPECT_TRUE(interception(stack, flow("a.example")).terminate);
  EXPECT_TRUE(interception(stack, flow("c.example")).terminate);
  EXPECT_FALSE(interception(stack, flow("d.example")).terminate);
  EXPECT_FALSE(interception(stack, flow("e.example")).terminate);
  EXPECT_EQ(interception(stack, flow("b.example")).blind_rule, "blind");
  EXPECT_EQ(interception(stack, flow("e.example")).blind_rule, "");
}

TEST(Requests, MethodsAndPaths) {
  const Stack stack{Policy{.protocol_rules = {{.name = "read",
                                               .domains = domains({"a.example"}),
                                               .methods = {.allowed = {"GET"}},
                                               .paths = {.denied = {"/repos/secret"}},
                                               .path_prefixes = {.allowed = {"/repos"}}}}}};
  const auto judge = [&](std::string_view method, std::string_view path) {
    return decide_request(stack, flow("a.example"), {.method = method, .path = path}).action;
  };
  EXPECT_EQ(judge("GET", "/repos/x"), Action::kAllow);
  EXPECT_EQ(judge("GET", "/repos"), Action::kAllow);
  EXPECT_EQ(judge("GET", "/repository"), Action::kDeny);
  EXPECT_EQ(judge("GET", "/repos/secret"), Action::kDeny);
  EXPECT_EQ(judge("GET", "/repos/secret;x=y"), Action::kDeny);
  EXPECT_EQ(judge("GET", "/repos;x/secret"), Action::kDeny);
  EXPECT_EQ(judge("GET", "/repos/other;x=y"), Action::kAllow);
  EXPECT_EQ(judge("POST", "/repos/x"), Action::kDeny);
  EXPECT_EQ(decide_request(stack, flow("b.example"), {.method = "POST", .path = "/"}).action,
            Action::kAllow);
}

TEST(Requests, ADeniedMethodIsDeniedInAnyCase) {
  const Stack stack{Policy{.protocol_rules = {{.methods = {.denied = {"DELETE"}}}}}};
  for (const std::string_view method : {"DELETE", "delete", "Delete"}) {
    EXPECT_EQ(decide_request(stack, flow("a.example"), {.method = method, .path = "/"}).action,
              Action::kDeny);
  }
}

TEST(Requests, CredentialRulesMatchTheirRequestOnly) {
  const Policy policy{.credential_rules = {{.name = "read",
                                            .credential_ref = "gh",
                                            .domains = domains({"a.example"}),
                                            .http_match = HttpMatch{
                                                .methods = {"GET"},
                                                .path_prefixes = {"/repos/"},
                                                .query = {{.name = "q", .values = {"1"}}},
                                                .headers = {{.name = "X-A", .present = true}}}}}};
  const NameValue query[] = {{"q", "1"}};
  const NameValue headers[] = {{"x-a", "anything"}};
  RequestFacts request{"GET", "/repos/x", query, headers};
  const auto* rule =
      credential_rule(policy, flow("a.example"), CredentialProtocol::kHttps, &request);
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->credential_ref, "gh");
  request.headers = {};
  EXPECT_EQ(credential_rule(policy, flow("a.example"), CredentialProtocol::kHttps, &request),
            nullptr);
  EXPECT_EQ(credential_rule(policy, flow("a.example"), CredentialProtocol::kHttps, nullptr),
            nullptr);
}

TEST(Merge, ByNameInPlaceOthersAfter) {
  const Policy below{.mode = Mode::kBlockAll,
                     .traffic_rules = {{.name = "a", .action = Action::kAllow},
                                       {.name = "b", .action = Action::kAllow}}};
  const Policy above{
      .mode = Mode::kAllowAll,
      .traffic_rules = {{.name = "a", .action = Action::kDeny}, {.action = Action::kAsk}}};
  const auto merged = merge_policies(below, above);
  EXPECT_EQ(merged.mode, Mode::kAllowAll);
  ASSERT_EQ(merged.traffic_rules.size(), 3U);
  EXPECT_EQ(merged.traffic_rules[0].action, Action::kDeny);
  EXPECT_EQ(merged.traffic_rules[1].name, "b");
  EXPECT_EQ(merged.traffic_rules[2].action, Action::kAsk);
}

}  // namespace
}  // namespace atl::egress
