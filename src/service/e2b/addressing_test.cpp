#include "service/e2b/addressing.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "service/e2b/file_signature.h"
#include "service/e2b/sandboxes/list_request.h"
#include "service/e2b/sandboxes/new_sandbox.h"
#include "service/e2b/sandboxes/snapshot_names.h"

namespace atl::service::e2b {
namespace {

using Kind = Address::Kind;

class AddressingTest : public testing::Test {
 protected:
  Address find(std::string path, http::Headers headers, std::string query = {}) {
    http::Request request{.method = "GET", .path = std::move(path), .query = std::move(query)};
    request.headers = std::move(headers);
    return find_address(names_, request);
  }
  control::PublicNames names_ =
      *control::make_public_names("apps.test", "", "127.0.0.1", 7070, false);
};

TEST_F(AddressingTest, HeadersComeFirstAndTogether) {
  const auto found =
      find("/sandboxes", {{"E2b-Sandbox-Id", "iabc"}, {"E2b-Sandbox-Port", "49983"}});
  EXPECT_EQ(found.kind, Kind::kSandbox);
  EXPECT_EQ(found.sandbox_id, "iabc");
  EXPECT_EQ(found.port, 49983);
  EXPECT_FALSE(found.by_host);
  EXPECT_EQ(find("/", {{"E2b-Sandbox-Id", "iabc"}}).kind, Kind::kBad);
  EXPECT_EQ(find("/", {{"E2b-Sandbox-Port", "49983"}}).kind, Kind::kBad);
  EXPECT_EQ(find("/", {{"E2b-Sandbox-Id", "a"}, {"E2b-Sandbox-Port", "0"}}).kind, Kind::kBad);
}

TEST_F(AddressingTest, HostNamesTellPortsFromTheServer) {
  const auto port = find("/files", {{"Host", "3000-iabc.APPS.test:7070"}});
  EXPECT_EQ(port.kind, Kind::kSandbox);
  EXPECT_EQ(port.sandbox_id, "iabc");
  EXPECT_EQ(port.port, 3000);
  EXPECT_TRUE(port.by_host);
  EXPECT_EQ(find("/sandboxes", {{"Host", "api.apps.test"}}).kind, Kind::kControl);
  EXPECT_EQ(find("/process.Process/List", {{"Host", "sandbox.apps.test"}}).kind, Kind::kBad);
  EXPECT_EQ(find("/files", {{"Host", "sandbox.apps.test"}}, "path=a&signature=v1_x").kind,
            Kind::kSigned);
  EXPECT_EQ(find("/", {{"Host", "other.apps.test"}}).kind, Kind::kNone);
  EXPECT_EQ(find("/hook", {{"Host", "rs-a-b--p49983.apps.test"}}).kind, Kind::kNone);
}

TEST_F(AddressingTest, OneNameIsOneThingHoweverItIsWritten) {
  const auto dotted = find("/sandboxes", {{"Host", "3000-iabc.apps.test.:7070"}});
  EXPECT_EQ(dotted.kind, Kind::kSandbox) << "not the control plane on a service's origin";
  EXPECT_EQ(dotted.port, 3000);
  names_ = *control::make_public_names("apps.test", "https://atoll.apps.test", "::", 7070, true);
  EXPECT_EQ(find("/sandboxes", {{"Host", "atoll.apps.test"}}).kind, Kind::kControl);
  EXPECT_EQ(find("/sandboxes", {{"Host", "atoll.apps.test."}}).kind, Kind::kControl);
  EXPECT_EQ(find("/sandboxes", {{"Host", "other.apps.test"}}).kind, Kind::kNone);
}

TEST_F(AddressingTest, PathsOfTheControlPlaneAndUnknownOnesOfItsClients) {
  for (const auto* path : {"/sandboxes", "/sandboxes/i1/pause", "/v2/sandboxes", "/v3/templates",
                           "/health", "/teams", "/volumecontent/v/file"}) {
    EXPECT_EQ(find(path, {{"Host", "127.0.0.1"}}).kind, Kind::kControl) << path;
  }
  for (const auto* path : {"/api/v1/sandboxes", "/healthz", "/", "/files", "/sandboxesx"}) {
    EXPECT_EQ(find(path, {{"Host", "127.0.0.1"}}).kind, Kind::kNone) << path;
  }
  EXPECT_EQ(find("/v9/new", {{"User-Agent", "x e2b-js-sdk/9.0"}}).kind, Kind::kControl);
  EXPECT_EQ(find("/v9/new", {{"X-API-Key", "e2b_00"}}).kind, Kind::kControl);
  EXPECT_EQ(client_version({{"User-Agent", "node e2b-js-sdk/2.51.0 z"}}), "e2b-js-sdk/2.51.0");
}

TEST(FileSignature, IsWhatClientsCompute) {
  // SHA-256 of "/a b:read:user:token:1700000000", in base64 without padding.
  const std::string made = sign_file("/a b", "read", "user", "token", "1700000000");
  EXPECT_EQ(made, "v1_h4gfJ4Xy+/3Xnb/DadkghxN8naQZDOfijgK7xwCFzac");
  http::Request request{
      .method = "GET",
      .path = "/files",
      .query = concat("path=%2Fa%20b&username=user&signature_expiration=1700000000&signature=",
                      http::percent_encode(made))};
  const auto signature = FileSignature::of(request);
  ASSERT_TRUE(signature);
  EXPECT_TRUE(signature->is_of("token"));
  EXPECT_FALSE(signature->is_of("other"));
  EXPECT_TRUE(signature->check_time(1'700'000'000'000));
  const auto late = signature->check_time(1'700'000'001'000);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "signature is already expired");
  const auto search = SignerSearch::begin(*signature, 1'700'000'000'000);
  ASSERT_TRUE(search);
  EXPECT_FALSE(search->is_signer("other"));
  EXPECT_TRUE(search->is_signer("token"));
  EXPECT_FALSE(search->is_signer(""));
  EXPECT_FALSE(SignerSearch::begin(*signature, 1'700'000'001'000)) << "over: nothing is hashed";
  auto other = *signature;
  other.signature.pop_back();
  EXPECT_FALSE(SignerSearch::begin(other, 0));
  other = *signature;
  other.path = std::string(5000, 'a');
  EXPECT_FALSE(SignerSearch::begin(other, 0));
  other = {.path = "p", .operation = "read", .signature = sign_file("p", "read", "", "token", "")};
  EXPECT_TRUE(SignerSearch::begin(other, 0)->is_signer("token"));
  request.method = "POST";
  EXPECT_FALSE(FileSignature::of(request)->is_of("token")) << "a link to read does not write";
}

TEST(ListRequest, MetadataIsEncodedThreeTimes) {
  // {"a b": "c&d=e"}: each encoded, joined as a form, then a query value (decoded by the caller).
  const auto pairs = parse_metadata("a%2520b%3Dc%2526d%253De%26x%3Dy");
  ASSERT_TRUE(pairs);
  ASSERT_EQ(pairs->size(), 2U);
  EXPECT_EQ(pairs->at(0), (std::pair<std::string, std::string>{"a b", "c&d=e"}));
  EXPECT_EQ(pairs->at(1), (std::pair<std::string, std::string>{"x", "y"}));
  EXPECT_FALSE(parse_metadata("%zz"));
}

TEST(ListRequest, TokensBelongToAnOrder) {
  const PageToken token{1'700'000'000'123, "iabc", true};
  const auto again = parse_page_token(format_page_token(token));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->at, token.at);
  EXPECT_EQ(again->id, token.id);
  EXPECT_TRUE(again->ascending);
  const std::string text = format_page_token(token);
  EXPECT_TRUE(parse_list_query("order=asc&nextToken=" + http::percent_encode(text)));
  EXPECT_FALSE(parse_list_query("order=desc&nextToken=" + http::percent_encode(text)));
  EXPECT_FALSE(parse_list_query("nextToken=%25%25"));
  EXPECT_FALSE(parse_list_query("limit=101"));
  EXPECT_FALSE(parse_list_query("state=stopped"));
  const auto both = parse_list_query("");
  EXPECT_TRUE(both->running && both->paused);
  const auto paused = parse_list_query("state=paused");
  EXPECT_TRUE(!paused->running && paused->paused);
}

Result<NewSandbox> create(std::string_view body, CreateVersion version) {
  return parse_new_sandbox(*Json::parse(body), version);
}

TEST(NewSandbox, VersionsDifferInWhatTheyLeaveOut) {
  const auto v1 = create(R"({"templateID": "base"})", CreateVersion::kV1);
  ASSERT_TRUE(v1) << v1.error().message;
  EXPECT_EQ(v1->claim.ttl_seconds, 15);
  EXPECT_FALSE(v1->terms.secure);
  EXPECT_EQ(v1->terms.ttl_end, control::TtlEnd::kDelete);
  const auto v2 = create(R"({"templateID": "base", "unknownOfTheFuture": 1})", CreateVersion::kV2);
  ASSERT_TRUE(v2) << v2.error().message;
  EXPECT_EQ(v2->claim.ttl_seconds, 300);
  EXPECT_TRUE(v2->terms.secure);
  EXPECT_EQ(v2->claim.id_style, control::IdStyle::kPlain);
  const auto pausing = create(
      R"({"templateID": "b", "autoPause": true, "autoPauseMemory": false, "timeout": 7,
          "metadata": {"a": "b"}, "envVars": {"A": "1"}})",
      CreateVersion::kV2);
  ASSERT_TRUE(pausing) << pausing.error().message;
  EXPECT_EQ(pausing->terms.ttl_end, control::TtlEnd::kPauseDisk);
  EXPECT_EQ(pausing->claim.labels.at("a"), "b");
  EXPECT_EQ(pausing->claim.env.at("A"), "1");
}

TEST(NewSandbox, RefusesWhatTheReferenceRefuses) {
  for (const auto* body :
       {R"({})", R"({"templateID": ""})", R"({"templateID": "b", "timeout": 0})",
        R"({"templateID": "b", "timeout": -1})", R"({"templateID": "b", "timeout": 99999999})",
        R"({"templateID": "b", "autoPauseMemory": false})",
        R"({"templateID": "b", "autoPause": true, "autoPauseMemory": false,
            "autoResume": {"enabled": true}})",
        R"({"templateID": "b", "iam": {"tokens": {"a": {"audience": "x", "tokenType": "JWT"}}}})",
        R"({"templateID": "b", "envVars": {"A": 1}})"}) {
    const auto refused = create(body, CreateVersion::kV2);
    ASSERT_FALSE(refused) << body;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << body;
  }
}

TEST(SnapshotNames, HaveATagAndTheNamespaceOfTheTeam) {
  EXPECT_EQ(*parse_snapshot_name("team", "My-State"), "my-state:default");
  EXPECT_EQ(*parse_snapshot_name("team", "team/x:v1.2"), "x:v1.2");
  for (const auto* bad : {"", "other/x", "a b", "a:", "a:b:c", "ä"}) {
    EXPECT_FALSE(parse_snapshot_name("team", bad)) << bad;
  }
  EXPECT_EQ(snapshot_id({.id = "snap-1", .team_id = "team", .name = "x:v1"}), "team/x:v1");
  EXPECT_EQ(snapshot_id({.id = "snap-1", .team_id = "team", .name = "A word"}), "snap-1");
}

}  // namespace
}  // namespace atl::service::e2b
