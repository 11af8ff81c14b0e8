#include "egress/mcp_policy.h"

#include <gtest/gtest.h>

namespace atl::egress {
namespace {

class Mcp : public ::testing::Test {
 protected:
  Mcp() {
    rule_.protocol = RuleProtocol::kMcp;
    rule_.tools.denied = {"delete_repo"};
    rule_.arguments = {{.tool = "read", .pointer = "/path", .pattern = "/tmp/.*"},
                       {.tool = "write", .pointer = "/a~1b/0", .pattern = "secret", .deny = true}};
    policy_ = std::move(*McpPolicy::compile({&rule_}));
  }
  McpVerdict judge(std::string_view body) {
    auto verdict = policy_->judge(body);
    EXPECT_TRUE(verdict) << verdict.error().message;
    return verdict.value_or(McpVerdict{});
  }
  static std::string call(std::string_view tool, std::string_view arguments = "{}") {
    return std::string{R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":")"}
        .append(tool)
        .append(R"(","arguments":)")
        .append(arguments)
        .append("}}");
  }

  ProtocolRule rule_;
  std::unique_ptr<McpPolicy> policy_;
};

TEST_F(Mcp, ToolsAreAllowedAndDeniedByName) {
  const auto allowed = judge(call("list_repos"));
  EXPECT_TRUE(allowed.allowed);
  EXPECT_EQ(allowed.forward, call("list_repos"));
  EXPECT_EQ(allowed.operations, std::vector<std::string>{"tools/call list_repos"});
  const auto denied = judge(call("delete_repo"));
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.forward, "");
  const auto answer = *Json::parse(denied.denial);
  EXPECT_EQ(*answer.find("id")->as_integer(), 7);
  EXPECT_EQ(*answer.find("error")->find("code")->as_integer(), kMcpDeniedCode);
}

TEST_F(Mcp, NamesThatSomeServersTrimAreRefused) {
  for (const auto* name : {" delete_repo", "delete_repo ", R"(delete_repo\u0000)",
                           R"(\tdelete_repo)", R"(delete_repo\u00a0)", "", R"(delete\nrepo)"}) {
    EXPECT_FALSE(policy_->judge(call(name))) << name;
  }
  EXPECT_FALSE(policy_->judge(R"({"jsonrpc":"2.0","id":1,"method":" tools/call","params":{}})"));
  EXPECT_TRUE(judge(call("two words")).allowed);
}

TEST_F(Mcp, ArgumentsCount) {
  EXPECT_TRUE(judge(call("read", R"({"path":"/tmp/x"})")).allowed);
  EXPECT_FALSE(judge(call("read", R"({"path":"/etc/passwd"})")).allowed);
  EXPECT_FALSE(judge(call("read", R"({"path":"/etc\n/tmp/x"})")).allowed);
  EXPECT_FALSE(judge(call("read")).allowed);
  EXPECT_FALSE(judge(call("write", R"({"a/b":["secret"]})")).allowed);
  EXPECT_TRUE(judge(call("write", R"({"a/b":["other"]})")).allowed);
}

TEST_F(Mcp, OneDeniedElementDeniesTheBatch) {
  const auto verdict = judge("[" + call("list_repos") + "," + call("delete_repo") + "]");
  EXPECT_FALSE(verdict.allowed);
  EXPECT_EQ(Json::parse(verdict.denial)->as_array()->size(), 2U);
  EXPECT_FALSE(policy_->judge("[]"));
}

TEST_F(Mcp, ANotificationIsJudgedToo) {
  const auto verdict =
      judge(R"({"jsonrpc":"2.0","method":"tools/call","params":{"name":"delete_repo"}})");
  EXPECT_FALSE(verdict.allowed);
  EXPECT_EQ(verdict.denial, "");
}

TEST_F(Mcp, SpellingsAreReadOnce) {
  const auto escaped = judge(
      R"({"jsonrpc":"2.0","id":1,"method":"tools\/\u0063all","params":{"name":"delete_\u0072epo"}})");
  EXPECT_FALSE(escaped.allowed);
  for (
      const auto* body :
      {R"({"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"})",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"ping","params":{"name":"x"}})",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","Name":"delete_repo"}})",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}})",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call"})", R"({"id":1,"method":"ping"})",
       R"({"jsonrpc":"2.0","id":{},"method":"ping"})", R"([[]])", R"("x")", "{} {}", ""}) {
    EXPECT_FALSE(policy_->judge(body)) << body;
  }
}

TEST_F(Mcp, ListsLoseWhatMayNotBeCalled) {
  const auto verdict = judge(R"({"jsonrpc":"2.0","id":"a","method":"tools/list"})");
  ASSERT_TRUE(verdict.allowed);
  const auto answer = *Json::parse(
      R"({"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"delete_repo"},{"name":"read"}]}})");
  EXPECT_EQ(policy_->filter_answer(answer, verdict.list_ids).dump(),
            R"({"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"read"}]}})");
  EXPECT_EQ(policy_->filter_answer(answer, {}), answer);
}

TEST_F(Mcp, APatternThatDoesNotCompileIsRefused) {
  ProtocolRule broken;
  broken.arguments = {{.tool = "x", .pointer = "/a", .pattern = "("}};
  EXPECT_FALSE(McpPolicy::compile({&broken}));
}

}  // namespace
}  // namespace atl::egress
