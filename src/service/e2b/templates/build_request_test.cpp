#include "service/e2b/templates/build_request.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/strings.h"
#include "service/e2b/templates/template_json.h"
#include "service/e2b/templates/upload_links.h"

namespace atl::service::e2b {
namespace {

Result<control::StepsBuild> parse(std::string_view text) {
  return parse_build_start(*Json::parse(text));
}

TEST(BuildRequest, WhatTheSdkSends) {
  const auto build = parse(R"({"steps":[
      {"type":"COPY","args":["a","b","",""],"force":true,"filesHash":"ff","forceUpload":true},
      {"type":"RUN","args":["make"],"force":false}],
      "force":false,"fromImage":"debian:12","startCmd":"serve","readyCmd":"test -e x"})");
  ASSERT_TRUE(build) << build.error().message;
  EXPECT_FALSE(build->from_template);
  EXPECT_EQ(build->from, "debian:12");
  EXPECT_EQ(build->start_command, "serve");
  ASSERT_EQ(build->steps.size(), 2U);
  EXPECT_TRUE(build->steps[0].force);
  EXPECT_EQ(build->steps[0].files_hash, "ff");
}

TEST(BuildRequest, ThePackagesOwnImagesAreTemplatesHere) {
  for (const std::string_view image :
       {"e2bdev/base", "e2bdev/base:latest", "docker.io/e2bdev/base"}) {
    const auto build = parse(concat(R"({"fromImage":")", image, R"("})"));
    ASSERT_TRUE(build);
    EXPECT_TRUE(build->from_template);
    EXPECT_EQ(build->from, "base");
  }
  EXPECT_FALSE(parse(R"({"fromImage":"e2bdev/base:old"})")->from_template);
}

TEST(BuildRequest, Registries) {
  const auto login = [](std::string_view registry) {
    return parse(concat(R"({"fromImage":"x","fromImageRegistry":)", registry, "}"));
  };
  const auto plain = login(R"({"type":"registry","username":"u","password":"p"})");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->pull.login->username, "u");
  const auto google = login(R"({"type":"gcp","serviceAccountJson":"{}"})");
  ASSERT_TRUE(google);
  EXPECT_EQ(google->pull.login->username, "_json_key");
  EXPECT_FALSE(login(R"({"type":"aws","awsAccessKeyId":"a"})"));
  EXPECT_FALSE(login(R"({"type":"registry","username":"u"})"));
  EXPECT_FALSE(login(R"({"type":"other"})"));
}

TEST(BuildRequest, ABaseIsNeededAndOnlyOne) {
  EXPECT_FALSE(parse("{}"));
  EXPECT_FALSE(parse(R"({"fromImage":"","fromTemplate":""})"));
  EXPECT_FALSE(parse(R"({"fromImage":"a","fromTemplate":"b"})"));
  EXPECT_FALSE(parse(R"({"fromTemplate":"b","steps":{}})"));
  EXPECT_FALSE(parse(R"({"fromTemplate":"b","steps":[{"type":"RUN","args":[1]}]})"));
}

TEST(UploadLinks, ForOneTeamOneHashAndAWhile) {
  const control::AccessTokens tokens{secrets::Plaintext{random_bytes(32)}};
  FakeWallClock clock{1'000'000};
  const UploadLinks links{tokens, clock};
  const std::string query = links.query_for({"team", "aa"});
  const auto grant = links.check(query, "aa");
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->team_id, "team");
  EXPECT_FALSE(links.check(query, "bb"));
  EXPECT_FALSE(links.check("", "aa"));
  EXPECT_FALSE(links.check(concat("team=other", query.substr(query.find('&'))), "aa"));
  clock.advance_ms(30LL * 60 * 1000 + 1);
  EXPECT_FALSE(links.check(query, "aa"));
}

TEST(LogEntries, EveryLineIsOne) {
  const auto entry =
      read_entry(R"({"type":"entry","at":5,"level":"warn","step":"2","text":"words"})", 1);
  EXPECT_EQ(entry.at, 5);
  EXPECT_EQ(entry.step, "2");
  EXPECT_TRUE(is_at_least(entry, *parse_level("info")));
  EXPECT_FALSE(is_at_least(entry, *parse_level("error")));
  const auto note = read_entry(R"({"type":"note","text":"fetching"})", 7);
  EXPECT_EQ(note.at, 7);
  EXPECT_EQ(note.message, "fetching");
  const auto error = read_entry(R"({"type":"error","code":"x","message":"why"})", 7);
  EXPECT_EQ(error.level, "error");
  EXPECT_EQ(error.message, "why");
  EXPECT_EQ(read_entry("no json", 7).message, "");
  EXPECT_FALSE(parse_level("loud"));
}

}  // namespace
}  // namespace atl::service::e2b
