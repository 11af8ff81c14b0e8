// Policies of sandboxes: merged, kept, handed on, closed when they cannot be read.
#include "control/network_policies.h"

#include "control/sandboxes_fixture.h"
#include "control/snapshots.h"
#include "control/stored_network.h"
#include "egress/policy_json.h"

namespace atl::control {
namespace {

NetworkRequestPtr request(std::string_view text, NetworkPlace place = NetworkPlace::kRequest) {
  const auto json = Json::parse(text);
  CHECK(json);
  // Sealed values come from this server only, and so not by read_network.
  auto read =
      text.contains("sealed") ? read_stored_network(*json) : read_network(*json, "network", place);
  CHECK(read);
  return std::make_shared<const NetworkRequest>(*std::move(read));
}

Error refusal(std::string_view text, NetworkPlace place = NetworkPlace::kRequest) {
  const auto json = Json::parse(text);
  CHECK(json);
  const auto read = read_network(*json, "network", place);
  return read ? Error{} : read.error();
}

constexpr const char* kBlocked =
    R"({"mode":"block-all","egress":{"trafficRules":[
        {"name":"a","action":"allow","domains":["a.example"]}]}})";
constexpr const char* kBound = R"({"mode":"allow-all",
  "egress":{"credentialRules":[{"credentialRef":"r","protocol":"https","domains":["x.example"],
            "tlsMode":"terminate-reoriginate"}]},
  "credentialBindings":[{"ref":"r","sourceRef":"s","projection":{"type":"placeholder_substitution",
   "placeholderSubstitution":{"replacements":[
     {"valueTemplate":"{{ .token }}","locations":["header"],"env":"API_KEY","prefix":"sk-"}]}}}]})";

class FakeSources final : public BindableSources {
 public:
  Result<> check_binding(std::string_view, const egress::Binding& binding) const override {
    return binding.source_ref == "s" || binding.has_own_values()
               ? Result<>{}
               : Result<>{fail(Code::kInvalidArgument, "there is none")};
  }
  std::optional<std::size_t> value_length(std::string_view, const egress::Binding&,
                                          std::string_view) const override {
    return 40;
  }
  std::optional<std::string> renewed(std::string_view,
                                     const egress::Binding& binding) const override {
    return binding.sealed == "old" ? std::optional<std::string>{"new"} : std::nullopt;
  }
};

class NetworkPoliciesTest : public SandboxesTest {
 protected:
  void SetUp() override {
    SandboxesTest::SetUp();
    begin();
  }
  void TearDown() override {
    policies_.reset();
    SandboxesTest::TearDown();
  }
  void begin() {
    policies_ = std::make_unique<NetworkPolicies>(StoreAccess{*store_, nullptr}, *sandboxes_,
                                                  simulation_.clock, &sources_);
    ASSERT_TRUE(simulation_.run(policies_->start()));
  }
  void restart() {
    policies_.reset();
    close();
    open();
    begin();
  }
  Result<Sandbox> claim_with(const char* text) {
    ClaimRequest claim{.template_name = "default"};
    claim.network = request(text);
    return simulation_.run(sandboxes_->claim(std::move(claim)));
  }
  Result<EffectiveNetwork> replace(const std::string& id, std::string_view text) {
    return simulation_.run(policies_->replace(kTeam, id, request(text), "network"));
  }
  void use_template(std::string_view network) {
    const Template base = *sandboxes_->templates().find("default", kTeam);
    Template value{.name = "mine", .layers = base.layers, .builtin = false};
    value.spec = concat(R"({"network":)", network, "}");
    ASSERT_TRUE(simulation_.run(
        sandboxes_->changeable_templates().put(StoreAccess{*store_, nullptr}, value)));
  }

  FakeSources sources_;
  std::unique_ptr<NetworkPolicies> policies_;
};

TEST_F(NetworkPoliciesTest, WithoutAnyEverythingIsOpen) {
  const auto sandbox = claim();
  ASSERT_TRUE(sandbox);
  const auto rules = policies_->rules_now(*sandbox);
  ASSERT_EQ(rules->layers.size(), 1U);
  EXPECT_EQ(rules->layers[0].origin, "sandbox");
  EXPECT_EQ(rules->layers[0].policy.mode, egress::Mode::kAllowAll);
  EXPECT_FALSE(rules->needs_authority());
}

TEST_F(NetworkPoliciesTest, AreKeptWithTheirSandbox) {
  const auto sandbox = claim_with(kBlocked);
  ASSERT_TRUE(sandbox) << sandbox.error().message;
  ASSERT_TRUE(replace(sandbox->id, R"({"mode":"block-all","groups":["team-a"]})"));
  restart();
  const auto network = policies_->get(kTeam, sandbox->id);
  ASSERT_TRUE(network);
  EXPECT_EQ(network->document.policy.mode, egress::Mode::kBlockAll);
  EXPECT_TRUE(network->document.policy.traffic_rules.empty());
  EXPECT_EQ(network->document.groups, std::vector<std::string>{"team-a"});
  EXPECT_FALSE(policies_->get("other", sandbox->id));
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, sandbox->id)));
  EXPECT_TRUE(store_->list_records("network-policy")->empty());
}

constexpr const char* kOwnValues = R"({"mode":"allow-all",
  "egress":{"credentialRules":[{"credentialRef":"r","protocol":"https","domains":["x.example"],
            "tlsMode":"terminate-reoriginate"}]},
  "credentialBindings":[{"ref":"r","sealed":"old","lateSources":["s"],"projection":{
   "type":"http_headers","httpHeaders":{"headers":[
     {"name":"X-Key","valueTemplate":"{{ .a }}{{ .source0_b }}"}]}}}]})";

TEST_F(NetworkPoliciesTest, OwnValuesAreSealedAgainAndGoToForks) {
  const auto parent = claim_with(kOwnValues);
  ASSERT_TRUE(parent) << parent.error().message;
  EXPECT_EQ(policies_->rules_now(*parent)->bindings.at(0).sealed, "old");
  restart();
  EXPECT_EQ(policies_->rules_now(*parent)->bindings.at(0).sealed, "new");
  EXPECT_TRUE(store_->list_records("network-policy")->front().body.contains("\"new\""));
  ASSERT_TRUE(replace(parent->id, kOwnValues)) << "its version is the one that is stored";
  Snapshots snapshots{StoreAccess{*store_, nullptr}, node_, *sandboxes_, simulation_.clock};
  const auto forked = simulation_.run(snapshots.fork(kTeam, parent->id, {}));
  ASSERT_TRUE(forked) << forked.error().message;
  EXPECT_EQ(policies_->rules_now(forked->sandboxes.front())->bindings.size(), 1U);
}

TEST_F(NetworkPoliciesTest, OfATemplateCanBeAFloor) {
  use_template(R"({"mode":"block-all","floor":true,"egress":{"trafficRules":[
      {"name":"a","action":"allow","domains":["a.example"]}]}})");
  ClaimRequest claim{.template_name = "mine"};
  claim.network = request(R"({"mode":"allow-all"})");
  const auto sandbox = simulation_.run(sandboxes_->claim(std::move(claim)));
  ASSERT_TRUE(sandbox) << sandbox.error().message;
  const auto rules = policies_->rules_now(*sandbox);
  ASSERT_EQ(rules->layers.size(), 2U);
  EXPECT_EQ(rules->layers[0].origin, "template");
  EXPECT_EQ(rules->layers[0].policy.mode, egress::Mode::kBlockAll);
  EXPECT_EQ(rules->layers[1].policy.mode, egress::Mode::kAllowAll);
  EXPECT_EQ(rules->layers[1].policy.traffic_rules.size(), 1U);
  policies_->set_operator_policy(egress::closed_policy());
  EXPECT_EQ(policies_->rules_now(*sandbox)->layers[0].origin, "operator");
  EXPECT_EQ(policies_->rules_now(*sandbox)->layers.size(), 3U);
  // Another version of the template counts at once.
  use_template(R"({"mode":"allow-all"})");
  EXPECT_EQ(policies_->rules_now(*sandbox)->layers.size(), 2U);
}

TEST_F(NetworkPoliciesTest, AForkHasThePolicyButNotTheCredentials) {
  const auto parent = claim_with(kBound);
  ASSERT_TRUE(parent) << parent.error().message;
  ASSERT_EQ(policies_->rules_now(*parent)->bindings.size(), 1U);
  EXPECT_TRUE(policies_->is_bound(kTeam, "s"));
  EXPECT_FALSE(policies_->is_bound("other", "s"));
  Snapshots snapshots{StoreAccess{*store_, nullptr}, node_, *sandboxes_, simulation_.clock};
  const auto forked = simulation_.run(snapshots.fork(kTeam, parent->id, {}));
  ASSERT_TRUE(forked) << forked.error().message;
  const auto rules = policies_->rules_now(forked->sandboxes.front());
  EXPECT_TRUE(rules->bindings.empty());
  EXPECT_EQ(rules->layers.back().policy.credential_rules.size(), 1U);
  const auto named =
      simulation_.run(snapshots.fork(kTeam, parent->id, {.network = request(kBound)}));
  ASSERT_TRUE(named) << named.error().message;
  const auto own = policies_->rules_now(named->sandboxes.front());
  ASSERT_EQ(own->bindings.size(), 1U);
  EXPECT_NE(own->bindings[0].projection.placeholders[0].placeholder,
            policies_->rules_now(*parent)->bindings[0].projection.placeholders[0].placeholder);
}

TEST_F(NetworkPoliciesTest, PlaceholdersAreMadeAndStay) {
  const auto sandbox = claim_with(kBound);
  ASSERT_TRUE(sandbox);
  const auto made =
      policies_->rules_now(*sandbox)->bindings[0].projection.placeholders[0].placeholder;
  EXPECT_TRUE(made.starts_with("sk-"));
  EXPECT_EQ(made.size(), 40U);  // as long as the value
  EXPECT_EQ(policies_->environment(*sandbox).at("API_KEY"), made);
  const auto running = simulation_.run(sandboxes_->running(kTeam, sandbox->id));
  ASSERT_TRUE(running);
  EXPECT_EQ(running->env.at("API_KEY"), made);
  ASSERT_TRUE(replace(sandbox->id, kBound));
  EXPECT_EQ(policies_->environment(*sandbox).at("API_KEY"), made);
  restart();
  EXPECT_EQ(policies_->environment(*sandbox).at("API_KEY"), made);
}

TEST_F(NetworkPoliciesTest, BindingsStayUnlessTheyAreNamed) {
  const auto sandbox = claim_with(kBound);
  ASSERT_TRUE(sandbox);
  ASSERT_TRUE(replace(sandbox->id, R"({"mode":"block-all"})"));
  EXPECT_EQ(policies_->get(kTeam, sandbox->id)->document.bindings.size(), 1U);
  ASSERT_TRUE(replace(sandbox->id, R"({"mode":"block-all","credentialBindings":[]})"));
  EXPECT_TRUE(policies_->get(kTeam, sandbox->id)->document.bindings.empty());
  EXPECT_FALSE(policies_->is_bound(kTeam, "s"));
}

TEST_F(NetworkPoliciesTest, ABrokenOneClosesEverythingAndSaysSo) {
  const auto sandbox = claim_with(kBlocked);
  ASSERT_TRUE(sandbox);
  auto record = store_->list_records("network-policy")->front();
  record.body = R"({"mode":"maybe"})";
  ASSERT_TRUE(store_->put_record(record, record.version));
  restart();
  const auto rules = policies_->rules_now(*sandbox);
  EXPECT_EQ(rules->layers.back().policy, egress::closed_policy());
  EXPECT_NE(policies_->get(kTeam, sandbox->id)->failure.find("mode"), std::string::npos);
  ASSERT_TRUE(replace(sandbox->id, R"({"mode":"allow-all"})"));
  EXPECT_TRUE(policies_->get(kTeam, sandbox->id)->failure.empty());
}

TEST_F(NetworkPoliciesTest, OfASandboxThatNeverCameToBeIsRemoved) {
  ASSERT_TRUE(
      store_->put_record({.kind = "network-policy", .id = "rs-none", .owner_id = "rs-none"}, 0));
  restart();
  EXPECT_TRUE(store_->list_records("network-policy")->empty());
}

TEST_F(NetworkPoliciesTest, AClaimWithAnUnknownSourceMakesNothing) {
  std::string text = kBound;
  text.replace(text.find(R"("sourceRef":"s")"), 15, R"("sourceRef":"t")");
  const auto sandbox = claim_with(text.c_str());
  ASSERT_FALSE(sandbox);
  EXPECT_EQ(sandbox.error().code, Code::kInvalidArgument);
  EXPECT_NE(sandbox.error().message.find("config.network.credentialBindings[0].sourceRef"),
            std::string::npos);
  EXPECT_TRUE(sandboxes_->all().empty());
}

TEST(NetworkDocument, MistakesAreNamed) {
  const auto bound = [](std::string_view projection, std::string_view rule) {
    return concat(R"({"mode":"allow-all","egress":{"credentialRules":[)", rule,
                  R"(]},"credentialBindings":[{"ref":"r","sourceRef":"s","projection":)",
                  projection, "}]}");
  };
  const std::pair<std::string, std::string> cases[] = {
      {R"({"mode":"allow-all","floor":true})", "network.floor"},
      {R"({"mode":"allow-all","groups":["A B"]})", "network.groups"},
      {bound(R"({"type":"http_header"})", ""), "projection.type"},
      {bound(R"({"type":"http_headers"})", ""), "headers"},
      {bound(R"({"type":"http_headers","httpHeaders":{"headers":[
          {"name":"Host","valueTemplate":"x"}]}})",
             ""),
       "no header"},
      {bound(R"({"type":"http_headers","httpHeaders":{"headers":[
          {"name":"A","valueTemplate":"{{ if .x }}"}]}})",
             ""),
       "valueTemplate"},
      {bound(R"({"type":"username_password","sshProxy":{}})", ""), "does not belong"},
      {bound(R"({"type":"ssh_proxy","sshProxy":{}})", ""), "knownHosts"},
      {bound(R"({"type":"placeholder_substitution","placeholderSubstitution":{"replacements":[
          {"placeholder":"short","valueTemplate":"x","locations":["header"]}]}})",
             ""),
       "placeholder"},
      {bound(R"({"type":"placeholder_substitution","placeholderSubstitution":{"replacements":[
          {"valueTemplate":"x","locations":["path"]}]}})",
             ""),
       "locations"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_NE(refusal(text).message.find(message), std::string::npos)
        << refusal(text).message << " for " << text;
  }
  EXPECT_NE(refusal(kBound, NetworkPlace::kOperator).message.find("operator"), std::string::npos);
}

TEST(NetworkDocument, RulesUseCredentialsThatTheyCanUse) {
  const auto check = [](std::string_view protocol, std::string_view kind, std::string_view ref) {
    const auto document =
        request(concat(R"({"mode":"allow-all","egress":{"credentialRules":[{"credentialRef":")",
                       ref, R"(","protocol":")", protocol,
                       R"(","domains":["x.example"],"tlsMode":"terminate-reoriginate"}]},
          "credentialBindings":[{"ref":"r","sourceRef":"s","projection":{"type":")",
                       kind, R"("}}]})"));
    return check_credentials(document->document, "network");
  };
  EXPECT_TRUE(check("redis", "username_password", "r"));
  EXPECT_TRUE(check("tls", "tls_client_certificate", "r"));
  EXPECT_FALSE(check("https", "username_password", "r"));
  EXPECT_FALSE(check("ssh", "tls_client_certificate", "r"));
  const auto unbound = check("redis", "username_password", "q");
  ASSERT_FALSE(unbound);
  EXPECT_NE(unbound.error().message.find("network.egress.credentialRules[0].credentialRef"),
            std::string::npos);
}

TEST(NetworkDocument, ComesBackTheSame) {
  const auto first = request(kBound);
  const auto again = read_network(write_network(first->document), "n", NetworkPlace::kRequest);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->document, first->document);
}

TEST(Placeholders, AreLongRandomAndPlain) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string made = make_placeholder("atl_", 0);
    EXPECT_EQ(made.size(), 26U);
    EXPECT_EQ(made.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789_"),
              std::string::npos);
    seen.insert(made);
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(make_placeholder("x", 10'000).size(), 256U);
}

}  // namespace
}  // namespace atl::control
