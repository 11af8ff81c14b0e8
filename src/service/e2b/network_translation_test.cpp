#include "service/e2b/network_translation.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "control/stored_network.h"

namespace atl::service::e2b {
namespace {

// Not sealed at all, so that a test can look inside.
Result<std::string> show(const control::SecretValues& values) {
  std::string out = "sealed:";
  for (const auto& [key, value] : values) {
    out += concat(key, "=", value.reveal(), ";");
  }
  return out;
}

Json parse(std::string_view text) {
  return *Json::parse(text);
}

Result<NetworkOptions> options(std::string_view text) {
  return read_network_options(parse(text), show);
}

std::string message(std::string_view text) {
  const auto read = options(text);
  return read ? "" : read.error().message;
}

TEST(E2bNetwork, SaysNothingWhenNothingIsAsked) {
  const auto none = options(R"({"templateID":"base"})");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->egress, nullptr);
  EXPECT_TRUE(none->allow_public_traffic);
}

TEST(E2bNetwork, AllowComesBeforeDenyAndAllIsAMode) {
  const auto read = options(
      R"({"network":{"allowOut":["1.1.1.1","*.example.com","api.test"],
                     "denyOut":["0.0.0.0/0"],"allowPublicTraffic":false}})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->allow_public_traffic);
  const auto& policy = read->egress->document.policy;
  EXPECT_EQ(policy.mode, egress::Mode::kBlockAll);
  ASSERT_EQ(policy.traffic_rules.size(), 3U);
  EXPECT_EQ(policy.traffic_rules[0].action, egress::Action::kAllow);
  EXPECT_TRUE(policy.traffic_rules[0].domains.empty());
  EXPECT_TRUE(policy.traffic_rules[1].networks.empty());
  EXPECT_FALSE(policy.traffic_rules[1].domains[0].matches("example.com"));
  EXPECT_TRUE(policy.traffic_rules[1].domains[0].matches("a.b.example.com"));
  EXPECT_EQ(policy.traffic_rules[2].action, egress::Action::kDeny);
  EXPECT_EQ(
      read->told,
      parse(R"({"allowOut":["1.1.1.1","*.example.com","api.test"],"denyOut":["0.0.0.0/0"]})"));
  EXPECT_EQ(read->internet, std::nullopt);
}

TEST(E2bNetwork, NoInternetIsBlockAll) {
  const auto read = options(R"({"allow_internet_access":false,"network":{"allowOut":["a.test"]}})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->egress->document.policy.mode, egress::Mode::kBlockAll);
  EXPECT_EQ(read->internet, false);
  const auto open = options(R"({"allow_internet_access":true})");
  ASSERT_TRUE(open && open->egress);
  EXPECT_EQ(open->egress->document.policy.mode, egress::Mode::kAllowAll);
}

TEST(E2bNetwork, RefusesWhatTheReferenceRefuses) {
  EXPECT_TRUE(message(R"({"network":{"allowOut":["a.test"]}})").contains("0.0.0.0/0"));
  EXPECT_TRUE(message(R"({"network":{"denyOut":["a.test"]}})").contains("denyOut"));
  EXPECT_TRUE(message(R"({"network":{"allowOut":["*"],"denyOut":["0.0.0.0/0"]}})").contains("*"));
  EXPECT_TRUE(message(R"({"network":{"httpsPorts":[49983]}})").contains("httpsPorts"));
  EXPECT_TRUE(message(R"({"network":{"maskRequestHost":"a/b"}})").contains("maskRequestHost"));
  EXPECT_TRUE(message(R"({"network":{"surprise":1}})").contains("surprise"));
  EXPECT_TRUE(message(R"({"allow_internet_access":"no"})").contains("allow_internet_access"));
  EXPECT_TRUE(message(R"({"network":{"rules":{"*":[]}}})").contains("no domain"));
  EXPECT_TRUE(message(R"({"network":{"rules":{"a.test":[{},{}]}}})").contains("at most one"));
  EXPECT_TRUE(message(R"({"network":{"egressProxy":{"address":"nowhere"}}})").contains("SOCKS5"));
  const auto header = [](std::string_view name, std::string_view value) {
    return message(concat(R"({"network":{"rules":{"a.test":[{"transform":{"headers":{")", name,
                          R"(":")", value, R"("}}}]}}})"));
  };
  EXPECT_TRUE(header("Host", "x").contains("Host"));
  EXPECT_TRUE(header("a b", "x").contains("a b"));
  EXPECT_TRUE(header("X", "a\\nb").contains("control"));
  EXPECT_TRUE(header("X", std::string(2049, 'a')).contains("2048"));
  EXPECT_TRUE(header("X", "${e2b.identity.tokens.t}").contains("identity"));
  EXPECT_TRUE(header("X", "${e2b.secrets.t").contains("not closed"));
}

TEST(E2bNetwork, HeadersAreSealedAndSecretsAreNamed) {
  const auto read = options(
      R"({"network":{"rules":{
            "*.test":[{"transform":{"headers":{"X-Wide":"w"}}}],
            "api.test":[{"transform":{"headers":{"Authorization":"Bearer ${e2b.secrets.Key}!",
                                                 "X-Plain":"{{ .x }}"}}}]}}})");
  ASSERT_TRUE(read) << read.error().message;
  const auto& document = read->egress->document;
  ASSERT_EQ(document.policy.credential_rules.size(), 2U);
  EXPECT_EQ(document.policy.credential_rules[0].domains[0].text(), "api.test");
  EXPECT_EQ(document.policy.credential_rules[0].tls_mode, egress::TlsMode::kTerminate);
  const auto& binding = document.bindings[1].binding;
  EXPECT_EQ(binding.sealed, "sealed:text0=Bearer ;text1=!;text2={{ .x }};");
  EXPECT_EQ(binding.late_sources, std::vector<std::string>{"key"});
  EXPECT_EQ(binding.projection.headers[0].value_template,
            "{{ .text0 }}{{ .source0_value }}{{ .text1 }}");
  EXPECT_TRUE(control::check_credentials(document, "network"));
  // What is stored can be read again.
  const auto stored = control::read_stored_network(control::write_network(document));
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(stored->document, document);
  // Nobody is told what is sealed, and nobody can send it for another domain.
  EXPECT_FALSE(control::show_network(document).dump().contains("sealed:text0"));
  EXPECT_FALSE(control::read_network(control::write_network(document), "network",
                                     control::NetworkPlace::kRequest));
  EXPECT_EQ(read->told.find("rules")->find("api.test")->as_array()->front(),
            parse(R"({"transform":{"headers":{
              "Authorization":"[hidden]${e2b.secrets.Key}[hidden]","X-Plain":"[hidden]"}}})"));
}

TEST(E2bNetwork, ProxyIsUpstreamAndItsLoginIsSealed) {
  const auto read = options(
      R"({"network":{"egressProxy":{"address":"proxy.test:1080","username":"u","password":"p"}}})");
  ASSERT_TRUE(read);
  const auto& document = read->egress->document;
  EXPECT_EQ(document.policy.proxy->host, "proxy.test");
  EXPECT_EQ(document.policy.proxy->port, 1080);
  EXPECT_EQ(document.bindings.at(0).binding.sealed, "sealed:password=p;username=u;");
  EXPECT_TRUE(control::check_credentials(document, "network"));
  EXPECT_EQ(read->told, parse(R"({"egressProxy":{"address":"proxy.test:1080","username":"u"}})"));
}

TEST(E2bNetwork, AnEmptyUpdateClears) {
  const auto update = read_network_update(Json::object(), show);
  ASSERT_TRUE(update);
  EXPECT_TRUE(update->egress->has_bindings);
  EXPECT_EQ(update->egress->document, control::NetworkDocument{});
  EXPECT_FALSE(read_network_update(parse(R"({"allowPublicTraffic":true})"), show));
}

}  // namespace
}  // namespace atl::service::e2b
