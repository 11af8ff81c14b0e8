// Specs, the registry of templates, and the log of a build.
#include "control/templates.h"

#include <gtest/gtest.h>

#include "base/scope.h"
#include "base/strings.h"
#include "control/build_log.h"
#include "control/sandboxes_fixture.h"
#include "control/template_spec.h"

namespace atl::control {
namespace {

Result<TemplateSpec> spec_of(std::string_view text) {
  TRY(const Json json, Json::parse(text));
  return parse_template_spec(json);
}

TEST(TemplateSpec, WhatItSays) {
  const auto spec = spec_of(R"({"description":"d","tags":["a"],"pool":{"minIdle":1,"maxIdle":2},
      "envVars":{"A":"1","B":"2"},
      "mainContainer":{"image":"x:1","env":[{"name":"A","value":"0"},{"name":"C","value":"3"}],
                       "resources":{"memory":"1Gi","ephemeralStorage":"5Gi"}}})");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->image, "x:1");
  EXPECT_EQ(spec->env, (store::StringMap{{"A", "1"}, {"B", "2"}, {"C", "3"}}));
  EXPECT_EQ(spec->resources.memory, "1Gi");
  EXPECT_EQ(spec->resources.disk, "5Gi");
}

TEST(TemplateSpec, ModulesToPreload) {
  const Template value{
      .spec = R"({"preload":["numpy","matplotlib.pyplot"],"pool":{"minIdle":1,"maxIdle":1}})",
      .builtin = false};
  EXPECT_EQ(template_defaults(value).preload,
            (std::vector<std::string>{"numpy", "matplotlib.pyplot"}));
  EXPECT_EQ(template_defaults(value).pool->min_idle, 1U);
  EXPECT_TRUE(spec_of("{}")->preload.empty());
}

TEST(TemplateSpec, MountPointsAreKept) {
  EXPECT_TRUE(spec_of(R"({"volumeMounts":[{"name":"data","mountPath":"/workspace/data"},
                                          {"name":"ro","mountPath":"/models","readOnly":true}]})"));
  EXPECT_TRUE(spec_of(R"({"volumeMounts":[]})"));
}

TEST(TemplateSpec, TmpMayGoWithTheProcesses) {
  EXPECT_TRUE(spec_of(R"({"ephemeral_tmp":true})")->ephemeral_tmp);
  EXPECT_FALSE(spec_of("{}")->ephemeral_tmp);
  EXPECT_TRUE(
      template_defaults({.spec = R"({"ephemeral_tmp":true})", .builtin = false}).ephemeral_tmp);
}

TEST(TemplateSpec, WhatIsRefused) {
  for (const char* text :
       {R"([])",
        R"({"ephemeral_tmp":1})",
        R"({"nonsense":1})",
        R"({"network":{}})",
        R"({"volumeMounts":{}})",
        R"({"volumeMounts":[{"name":"a"}]})",
        R"({"volumeMounts":[{"name":"a","mountPath":"x"}]})",
        R"({"volumeMounts":[{"name":"a","mountPath":"/proc/x"}]})",
        R"({"volumeMounts":[{"name":"a","mountPath":"/x/../y"}]})",
        R"({"volumeMounts":[{"name":"a","mountPath":"/x","readOnly":1}]})",
        R"({"volumeMounts":[{"name":"a","mountPath":"/x"},{"name":"a","mountPath":"/y"}]})",
        R"({"pod":{}})",
        R"({"preload":"numpy"})",
        R"({"preload":[1]})",
        R"({"preload":["numpy "]})",
        R"({"preload":["a..b"]})",
        R"({"preload":["os","os"]})",
        R"({"preload":["os;evil"]})",
        R"({"pool":{"minIdle":2,"maxIdle":1}})",
        R"({"pool":{"minIdle":-1}})",
        R"({"mainContainer":{"securityContext":{}}})",
        R"({"mainContainer":{"image":1}})",
        R"({"mainContainer":{"env":[{"name":"A","value":"1","x":1}]}})",
        R"({"envVars":{"A":1}})",
        R"({"envVars":{"A=B":"1"}})",
        R"({"mainContainer":{"resources":{"gpu":"1"}}})"}) {
    const auto spec = spec_of(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().code, Code::kInvalidArgument) << text;
  }
}

TEST(TemplateSpec, TheSpecIsAboveTheImage) {
  Template value{.name = "t", .builtin = false};
  value.config = R"({"env":{"A":"image","B":"image"},"user":"","workingDir":"/srv"})";
  value.spec = R"({"envVars":{"A":"spec"},"mainContainer":{"resources":{"memory":"1Gi"}}})";
  const auto defaults = template_defaults(value);
  EXPECT_EQ(defaults.env, (store::StringMap{{"A", "spec"}, {"B", "image"}}));
  EXPECT_EQ(defaults.user, "root");
  EXPECT_EQ(defaults.cwd, "/srv");
  EXPECT_EQ(defaults.resources.memory, "1Gi");
}

TEST(TemplateNames, Grammar) {
  for (const char* good : {"a", "0", "my-app_1.2"}) {
    EXPECT_TRUE(check_template_name(good)) << good;
  }
  for (const char* bad : {"", "-a", ".a", "A", "a/b", "a b", "..", "\xff"}) {
    EXPECT_FALSE(check_template_name(bad)) << bad;
  }
  EXPECT_FALSE(check_template_name(std::string(64, 'a')));
}

class TemplateTeams : public SandboxesTest {
 protected:
  void put(std::string name, std::string team_id) {
    Template value{.name = std::move(name),
                   .layers = {"layer-1"},
                   .spec = R"({"envVars":{"SECRET":"of the team"}})",
                   .builtin = false,
                   .team_id = std::move(team_id)};
    value.state = TemplateState::kReady;
    const auto kept = simulation_.run(
        sandboxes_->changeable_templates().put(StoreAccess{*store_, nullptr}, std::move(value)));
    ASSERT_TRUE(kept) << kept.error().message;
  }
};

TEST_F(TemplateTeams, EachSeesItsOwnAndTheBuiltinOnes) {
  put("of-a", "a");
  put("of-b", "b");
  const Templates& templates = sandboxes_->templates();
  EXPECT_TRUE(templates.find("of-a", "a"));
  EXPECT_TRUE(templates.find_ready("default", "a"));
  EXPECT_TRUE(templates.find_ready("default", "b"));
  EXPECT_TRUE(templates.taken("of-a"));
  EXPECT_FALSE(templates.taken("of-c"));
  for (const auto& found : {templates.find("of-a", "b"), templates.find_ready("of-a", "b"),
                            templates.find("misspelt", "b")}) {
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().reason, "template_not_found");
    const std::string_view names =
        std::string_view{found.error().message}.substr(found.error().message.find("there is: "));
    EXPECT_EQ(names.find("of-a"), std::string_view::npos) << names;
    EXPECT_NE(names.find("default, of-b"), std::string_view::npos) << names;
  }
  EXPECT_TRUE(templates.defaults("of-a", "a").env.contains("SECRET"));
  EXPECT_FALSE(templates.defaults("of-a", "b").env.contains("SECRET"));
}

TEST_F(TemplateTeams, NobodyClaimsFromAnothersTemplate) {
  put("ours", kTeam);
  put("theirs", "b");
  EXPECT_TRUE(claim({.template_name = "ours"}));
  for (const auto& refused :
       {claim({.template_name = "theirs"}), claim({.team_id = "b", .template_name = "ours"})}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, "template_not_found");
  }
}

class BuildLogTest : public ::testing::Test {
 protected:
  // What next() gives within this turn; nullopt: it waits.
  std::optional<std::string> next(BuildLog& log, std::uint64_t& from) {
    std::optional<std::string> got;
    Scope scope{loop_};
    scope.spawn("next", read(log, from, got));
    loop_.run_ready();
    scope.cancel();
    loop_.run_ready();
    return got;
  }
  static Task<> read(BuildLog& log, std::uint64_t& from, std::optional<std::string>& got) {
    CO_TRY(got, co_await log.next(from));
    co_return ok();
  }
  ManualLoop loop_;
};

TEST_F(BuildLogTest, EveryReaderGetsAllOfIt) {
  BuildLog log;
  std::uint64_t first = 0;
  EXPECT_EQ(next(log, first), std::nullopt);
  log.note("one");
  EXPECT_EQ(next(log, first), "{\"type\":\"note\",\"text\":\"one\"}\n");
  EXPECT_EQ(next(log, first), std::nullopt);
  log.end({}, Json::object({{"type", "done"}}));
  EXPECT_EQ(next(log, first), "{\"type\":\"done\"}\n");
  EXPECT_EQ(next(log, first), "");
  std::uint64_t late = 0;
  EXPECT_EQ(next(log, late), "{\"type\":\"note\",\"text\":\"one\"}\n{\"type\":\"done\"}\n");
}

TEST_F(BuildLogTest, OldRecordsGoAndAreCounted) {
  BuildLog log;
  for (int i = 0; i < 200; ++i) {
    log.note(std::string(100'000, 'x'));
  }
  std::uint64_t from = 0;
  const auto piece = next(log, from);
  ASSERT_TRUE(piece);
  EXPECT_TRUE(piece->starts_with("{\"type\":\"missed\",\"records\":1")) << piece->substr(0, 60);
  EXPECT_GT(from, 100U);
}

}  // namespace
}  // namespace atl::control
