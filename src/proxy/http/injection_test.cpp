// Credentials that go out, and placeholders that must not.
#include <gtest/gtest.h>

#include "proxy/http/placeholder_guard.h"
#include "proxy/http/test_boundary.h"

namespace atl::proxy::http {
namespace {

using egress::Material;
using egress::ProjectionKind;

const std::string kPlaceholder = "atl-placeholder-0123456789abcdef";
const std::string kOther = "atl-placeholder-fedcba9876543210";
const std::string kSecret = "s3cr3t+value/\"x\"";

// The binding "token" for api.test; "other" belongs elsewhere.
void bind(TestBoundary& boundary, ProjectionKind kind) {
  egress::CredentialRule rule;
  rule.name = "use-token";
  rule.credential_ref = "token";
  rule.protocol = egress::CredentialProtocol::kHttp;
  rule.domains.push_back(*egress::DomainPattern::parse("api.test"));
  boundary.policy().credential_rules.push_back(rule);
  egress::Binding binding{.ref = "token"};
  binding.projection.kind = kind;
  binding.projection.placeholders.push_back({.placeholder = kPlaceholder});
  egress::Binding other{.ref = "other"};
  other.projection.kind = ProjectionKind::kPlaceholders;
  other.projection.placeholders.push_back({.placeholder = kOther});
  boundary.session->rules_->bindings = {binding, other};
  auto material = std::make_shared<Material>();
  material->kind = kind;
  material->source_version = "token@3";
  material->headers.push_back({"X-Api-Key", "Bearer " + kSecret});
  material->placeholders.push_back({kPlaceholder, kSecret, true, true, true});
  boundary.materials["token"] = material;
}

std::string close_head(std::string_view line, std::string_view fields) {
  return concat(line, " HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n", fields, "\r\n");
}

TEST(Injection, HeadersReplaceWhateverTheClientSentUnderTheirName) {
  TestBoundary boundary;
  bind(boundary, ProjectionKind::kHttpHeaders);
  Script script;
  talk(boundary, script,
       close_head("GET /", "x_api_key: mine\r\nX-API-KEY: mine\r\nx-Api_Key: mine\r\nOk: 1\r\n"));
  EXPECT_TRUE(has(script.received, "X-Api-Key: Bearer " + kSecret + "\r\n")) << script.received;
  EXPECT_FALSE(has(script.received, "mine")) << script.received;
  EXPECT_TRUE(has(script.received, "Ok: 1"));
  EXPECT_EQ("token@3", boundary.account->record.credential);
}

TEST(Injection, AConnectionFieldCannotRemoveTheCredential) {
  TestBoundary boundary;
  bind(boundary, ProjectionKind::kHttpHeaders);
  Script script;
  talk(boundary, script,
       "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close, x-api-key\r\n\r\n");
  EXPECT_TRUE(has(script.received, "X-Api-Key: Bearer ")) << script.received;
}

TEST(Injection, AValueWithALineBreakIsNotSent) {
  TestBoundary boundary;
  bind(boundary, ProjectionKind::kHttpHeaders);
  auto material = std::make_shared<Material>();
  material->headers.push_back({"X-Api-Key", "a\r\nEvil: 1"});
  boundary.materials["token"] = material;
  Script script;
  const auto got = talk(boundary, script, close_head("GET /", ""));
  EXPECT_EQ(502, status_of(got));
  EXPECT_EQ("", script.received);
}

TEST(Injection, WithoutAValueNothingIsSentUnlessTheRuleSaysSo) {
  for (const bool fail_open : {false, true}) {
    TestBoundary boundary;
    bind(boundary, ProjectionKind::kHttpHeaders);
    boundary.materials.clear();
    boundary.policy().credential_rules[0].fail_open = fail_open;
    Script script;
    const auto got = talk(boundary, script, close_head("GET /", ""));
    EXPECT_EQ(fail_open ? 200 : 502, status_of(got)) << got;
    EXPECT_EQ(fail_open, !script.received.empty());
  }
}

TEST(Injection, PlainHttpGetsNothingFromARuleForHttps) {
  TestBoundary boundary;
  bind(boundary, ProjectionKind::kHttpHeaders);
  boundary.policy().credential_rules[0].protocol = egress::CredentialProtocol::kHttps;
  Script script;
  talk(boundary, script, close_head("GET /", ""));
  EXPECT_FALSE(has(script.received, "X-Api-Key")) << script.received;
}

TEST(Injection, PlaceholdersAreReplacedWhereTheyMayBe) {
  TestBoundary boundary;
  bind(boundary, ProjectionKind::kPlaceholders);
  Script script{.until = "}"};
  const auto body = "{\"k\":\"" + kPlaceholder + "\"}";
  talk(boundary, script,
       close_head("POST /p?a=" + kPlaceholder + "&b=1",
                  concat("Authorization: Basic ", base64_encode("me:" + kPlaceholder),
                         "\r\nX-T: t ", kPlaceholder, "\r\nContent-Type: application/json\r\n",
                         "Content-Length: ", body.size(), "\r\n")) +
           body);
  const std::string in_json = "{\"k\":\"s3cr3t+value/\\\"x\\\"\"}";
  EXPECT_TRUE(has(script.received, "?a=s3cr3t%2bvalue%2f%22x%22&b=1") ||
              has(script.received, "?a=s3cr3t%2Bvalue%2F%22x%22&b=1"))
      << script.received;
  EXPECT_TRUE(has(script.received, "Basic " + base64_encode("me:" + kSecret))) << script.received;
  EXPECT_TRUE(has(script.received, "X-T: t " + kSecret)) << script.received;
  EXPECT_TRUE(has(script.received, concat("content-length: ", in_json.size(), "\r\n")))
      << script.received;
  EXPECT_TRUE(script.received.ends_with("\r\n\r\n" + in_json)) << script.received;
}

TEST(Injection, APlaceholderCutByChunksIsReplaced) {
  TestBoundary boundary;
  bind(boundary, ProjectionKind::kPlaceholders);
  Script script{.until = "0\r\n\r\n"};
  const auto half = kPlaceholder.substr(0, 16);
  talk(boundary, script,
       close_head("POST /", "Transfer-Encoding: chunked\r\n") + "10\r\n" + half + "\r\n10\r\n" +
           kPlaceholder.substr(16) + "\r\n0\r\n\r\n");
  EXPECT_TRUE(has(script.received, kSecret)) << script.received;
  EXPECT_FALSE(has(script.received, half)) << script.received;
}

TEST(Injection, AnEncodedBodyThatCannotBeRewrittenIsRefused) {
  TestBoundary boundary;
  bind(boundary, ProjectionKind::kPlaceholders);
  Script script;
  const auto got =
      talk(boundary, script,
           close_head("POST /", "Content-Encoding: gzip\r\nContent-Length: 3\r\n") + "abc");
  EXPECT_EQ(403, status_of(got)) << got;
  EXPECT_EQ("", script.received);
}

TEST(Injection, AnotherHostsPlaceholderIsNeverSent) {
  const std::string json_escaped = [] {
    std::string text;
    for (const char c : kOther) {
      text += "\\u00" + hex(std::string_view{&c, 1});
    }
    return text;
  }();
  const std::string percent_encoded = [] {
    std::string text;
    for (const char c : kOther) {
      text += "%" + hex(std::string_view{&c, 1});
    }
    return text;
  }();
  const auto in_body = [](const std::string& body) {
    return close_head("POST /", concat("Content-Length: ", body.size(), "\r\n")) + body;
  };
  const std::vector<std::string> requests{
      close_head("GET /" + kOther, ""),
      close_head("GET /?q=" + kOther, ""),
      close_head("GET /?q=" + percent_encoded, ""),
      close_head("GET /", "Authorization: Bearer " + kOther + "\r\n"),
      close_head("GET /", "Authorization: Basic " + base64_encode("x:" + kOther) + "\r\n"),
      close_head("GET /", "Cookie: a=b; c=" + kOther + "\r\n"),
      in_body("text " + kOther + " text"),
      in_body("{\"a\":\"" + json_escaped + "\"}"),
      in_body("a=" + percent_encoded),
      in_body(base64_encode("padding " + kOther + " padding")),
      in_body(std::string(200000, 'x') + kOther),
      close_head("POST /", "Transfer-Encoding: chunked\r\n") + "10\r\n" + kOther.substr(0, 16) +
          "\r\n10\r\n" + kOther.substr(16) + "\r\n0\r\n\r\n",
      close_head("POST /", "Transfer-Encoding: chunked\r\n") + "1\r\na\r\n0\r\nx-t: " + kOther +
          "\r\n\r\n",
  };
  for (const auto& request : requests) {
    TestBoundary boundary;
    bind(boundary, ProjectionKind::kPlaceholders);
    Script script{.until = "never"};
    const auto got = talk(boundary, script, request);
    EXPECT_EQ(403, status_of(got)) << request.substr(0, 300) << " -> " << got;
    EXPECT_TRUE(has(got, "placeholder_misdirected")) << got;
    EXPECT_FALSE(has(script.received, kOther)) << request.substr(0, 300);
    EXPECT_FALSE(has(script.received, json_escaped) || has(script.received, percent_encoded));
    ASSERT_FALSE(boundary.account->record.operations.empty());
    EXPECT_TRUE(has(boundary.account->record.operations.back(), "403"));
    EXPECT_FALSE(has(boundary.account->record.operations.back(), "?"));
  }
}

TEST(Injection, APlaceholderMayBeForwardedWhereItsBindingSaysSo) {
  TestBoundary boundary;
  bind(boundary, ProjectionKind::kPlaceholders);
  boundary.session->rules_->bindings[1].projection.forward_unmatched = true;
  Script script;
  const auto got = talk(boundary, script, close_head("GET /?q=" + kOther, ""));
  EXPECT_EQ(200, status_of(got)) << got;
}

TEST(Injection, AnEchoedValueIsRedacted) {
  TestBoundary boundary;
  bind(boundary, ProjectionKind::kHttpHeaders);
  boundary.session->rules_->bindings[0].projection.redact_responses = true;
  const auto base64 = base64_encode("ab" + kSecret);
  const auto echo = concat("you sent Bearer ", kSecret, " and ", base64, ".");
  Script script{.replies = {concat("HTTP/1.1 200 OK\r\nx-echo: ", kSecret,
                                   "\r\ncontent-length: ", echo.size(), "\r\n\r\n", echo)}};
  const auto got = talk(boundary, script, close_head("GET /", "Accept-Encoding: gzip, br\r\n"));
  EXPECT_EQ(200, status_of(got)) << got;
  EXPECT_FALSE(has(got, kSecret)) << got;
  EXPECT_FALSE(has(got, base64.substr(4, 12))) << got;
  EXPECT_TRUE(has(got, "you sent ") && got.ends_with(".")) << got;
  EXPECT_TRUE(has(script.received, "accept-encoding: identity")) << script.received;
}

TEST(Injection, ARefusedUpgradeIsRedactedToo) {
  TestBoundary boundary;
  bind(boundary, ProjectionKind::kHttpHeaders);
  boundary.session->rules_->bindings[0].projection.redact_responses = true;
  Script script{.replies = {concat("HTTP/1.1 103 Early Hints\r\nlink: ", kSecret,
                                   "\r\n\r\nHTTP/1.1 403 No\r\nx-echo: ", kSecret,
                                   "\r\ncontent-length: ", kSecret.size(), "\r\n\r\n", kSecret)}};
  const auto got = talk(boundary, script,
                        "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close, upgrade\r\n"
                        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nRange: bytes=0-3\r\n"
                        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n");
  EXPECT_TRUE(has(script.received, "upgrade: websocket")) << script.received;
  EXPECT_FALSE(has(script.received, "ange: ")) << script.received;
  EXPECT_TRUE(has(got, "HTTP/1.1 103 ") && has(got, "HTTP/1.1 403 ")) << got;
  EXPECT_FALSE(has(got, kSecret)) << got;
}

TEST(PlaceholderGuard, FindsItHoweverTheBodyIsCut) {
  const std::string body = "some text " + kOther + " more";
  for (std::size_t cut = 1; cut < body.size(); ++cut) {
    PlaceholderGuard guard{{kOther}};
    const auto first = guard.feed(std::string_view{body}.substr(0, cut));
    const auto second = first ? guard.feed(std::string_view{body}.substr(cut)) : first;
    EXPECT_FALSE(second) << cut;
  }
}

}  // namespace
}  // namespace atl::proxy::http
