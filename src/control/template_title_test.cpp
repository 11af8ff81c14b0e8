#include "control/template_title.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "control/build_steps.h"
#include "control/template_family.h"

namespace atl::control {
namespace {

TEST(TemplateTitle, PartsAreOptional) {
  EXPECT_EQ(*parse_title("App"), (TemplateTitle{"", "app", ""}));
  EXPECT_EQ(*parse_title("team/my_app-2:v1.0"), (TemplateTitle{"team", "my_app-2", "v1.0"}));
  EXPECT_EQ(parse_title("a:0F8FAD5B-d9cb-469f-a165-70867728950e")->tag,
            "0f8fad5b-d9cb-469f-a165-70867728950e");
}

TEST(TemplateTitle, WhatIsNoneIsRefused) {
  for (const std::string_view text : {"", "a b", "a/", "/a", "a:", "a/b/c", "a:b:c", "ä", "a.b"}) {
    EXPECT_FALSE(parse_title(text)) << text;
  }
  EXPECT_FALSE(parse_title(std::string(64, 'a')));
}

TEST(TemplateTitle, ATagIsNoBuild) {
  EXPECT_EQ(*parse_tag(" V1.2 "), "v1.2");
  EXPECT_FALSE(parse_tag("0f8fad5b-d9cb-469f-a165-70867728950e"));
  EXPECT_TRUE(is_uuid(random_uuid()));
  EXPECT_NE(random_uuid(), random_uuid());
}

TEST(TemplateTitle, DerivedIdsAreStable) {
  const std::string id = derived_template_id("default");
  EXPECT_EQ(id.size(), 20U);
  EXPECT_EQ(id, derived_template_id("default"));
  EXPECT_NE(id, derived_template_id("other"));
}

TemplateFamily example() {
  const std::string one = "00000000-0000-4000-8000-000000000001";
  const std::string two = "00000000-0000-4000-8000-000000000002";
  TemplateFamily family{.alias = "app"};
  family.builds.push_back({.id = one, .status = BuildStatus::kReady, .template_name = "app.1"});
  family.builds.push_back({.id = two,
                           .status = BuildStatus::kError,
                           .tags = {"default"},
                           .failure = "why",
                           .failed_step = "2",
                           .finished_at = 5});
  family.set_tag("v1", one, 3);
  return family;
}

TEST(TemplateFamily, TagsChooseBuildsThatAreReady) {
  TemplateFamily family = example();
  EXPECT_EQ(family.choose(""), nullptr);  // nothing has the default tag
  ASSERT_NE(family.choose("v1"), nullptr);
  EXPECT_EQ(family.choose("v1")->template_name, "app.1");
  EXPECT_EQ(family.choose(family.builds[0].id), family.choose("v1"));
  EXPECT_EQ(family.choose(family.builds[1].id), nullptr);  // it has failed
  EXPECT_EQ(family.newest_ready(), family.builds.data());
  family.set_tag("v1", family.builds[1].id, 4);
  EXPECT_EQ(family.tags.size(), 1U);
  EXPECT_EQ(family.choose("v1"), nullptr);
  EXPECT_FALSE(family.is_tagged(family.builds[0].id));
}

TEST(TemplateFamily, TheEndOfABuildMovesItsTags) {
  TemplateFamily family = example();
  family.end_build(family.builds[1], "", 7);
  ASSERT_EQ(family.choose(""), &family.builds[1]);
  EXPECT_EQ(family.builds[1].failure, "");
  EXPECT_EQ(family.builds[1].finished_at, 7);
  family.end_build(family.builds[0], "why", 8);
  EXPECT_EQ(family.builds[0].status, BuildStatus::kError);
  EXPECT_EQ(family.choose("v1"), nullptr);
  TemplateFamily deleted = example();
  deleted.deleted = true;
  deleted.end_build(deleted.builds[1], "", 7);
  EXPECT_FALSE(deleted.is_tagged(deleted.builds[1].id));
}

TEST(TemplateFamily, ThereAndBack) {
  const TemplateFamily family = example();
  const auto back = family_from_json(to_json(family));
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json(*back).dump(), to_json(family).dump());
  EXPECT_EQ(back->builds[1].failed_step, "2");
  EXPECT_FALSE(family_from_json(*Json::parse(R"({"builds":[{"id":"x","status":"ready"}]})")));
}

TEST(BuildStep, TypesAndArguments) {
  EXPECT_EQ(make_step("ADD", {"a", "b"})->kind, BuildStep::Kind::kCopy);
  EXPECT_EQ(make_step("ARG", {"A", "1"})->kind, BuildStep::Kind::kEnv);
  EXPECT_EQ(make_step("RUN", {"make", "root"})->display(), "RUN make");
  EXPECT_FALSE(make_step("RUN", {}));
  EXPECT_FALSE(make_step("ENV", {"A", "1", "B"}));
  EXPECT_FALSE(make_step("EXPOSE", {"80"}));
  EXPECT_FALSE(make_step("USER", {"a", "b"}));
}

TEST(StepLog, WholeLinesWithTheirStep) {
  BuildLog log;
  const FakeWallClock clock{1000};
  StepLog steps{log, clock};
  steps.begin("2");
  steps.output("[p]", {{guest::Stream::kStdout, 0}, "one\ntw"});
  steps.output("[p]", {{guest::Stream::kStderr, 6}, "bad\n"});
  steps.output("[p]", {{guest::Stream::kStdout, 10}, "o\r\nrest"});
  steps.end_output("[p]");
  const auto lines = log.read(0, 100);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0],
            R"({"type":"entry","at":1000,"level":"info","step":"2","text":"[p] [stdout]: one"})");
  EXPECT_TRUE(lines[1].contains(R"("level":"warn")")) << lines[1];
  EXPECT_TRUE(lines[2].contains("[stdout]: two\"")) << lines[2];
  EXPECT_TRUE(lines[3].contains("[stdout]: rest")) << lines[3];
  EXPECT_EQ(log.read(3, 100).size(), 1U);
  EXPECT_TRUE(log.read(9, 100).empty());
}

TEST(StepLog, EndsBeforeTheFirstEntriesGo) {
  BuildLog log;
  const FakeWallClock clock{1000};
  StepLog steps{log, clock};
  const std::string line = std::string(10'000, 'x') + "\n";
  for (int i = 0; i < 2000; ++i) {
    steps.output("", {{guest::Stream::kStdout, 0}, line});
  }
  steps.add("info", "lost");
  const auto lines = log.read(0, SIZE_MAX);
  EXPECT_TRUE(lines.back().contains("the log is full"));
  EXPECT_EQ(log.read(lines.size() - 1, 10).size(), 1U);  // the numbers still fit
}

}  // namespace
}  // namespace atl::control
