// MCP messages through the proxy.
#include <gtest/gtest.h>

#include "proxy/http/limits.h"
#include "proxy/http/sse_filter.h"
#include "proxy/http/test_boundary.h"

namespace atl::proxy::http {
namespace {

void add_rule(TestBoundary& boundary) {
  egress::ProtocolRule rule;
  rule.name = "mcp";
  rule.protocol = egress::RuleProtocol::kMcp;
  rule.tools.denied = {"delete_all"};
  boundary.policy().protocol_rules.push_back(rule);
}

std::string post(const std::string& body, std::string_view fields = "") {
  return concat("POST /mcp HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n", fields,
                "Content-Length: ", body.size(), "\r\n\r\n", body);
}

TEST(McpRelay, ADeniedCallGetsAnErrorItsCallerCanRead) {
  TestBoundary boundary;
  add_rule(boundary);
  Script script;
  const auto got = talk(boundary, script,
                        post(R"({"jsonrpc":"2.0","id":7,"method":"tools/call",)"
                             R"("params":{"name":"delete_all"}})"));
  EXPECT_EQ(200, status_of(got));
  EXPECT_TRUE(has(got, R"("id":7)") && has(got, "denied by network policy")) << got;
  EXPECT_EQ("", script.received);
  ASSERT_FALSE(boundary.account->record.operations.empty());
  EXPECT_EQ("tools/call delete_all denied", boundary.account->record.operations[0]);
}

TEST(McpRelay, WhatIsAllowedIsWrittenAnew) {
  TestBoundary boundary;
  add_rule(boundary);
  Script script{.until = "}}"};
  const auto got = talk(boundary, script,
                        post("{ \"jsonrpc\" : \"2.0\", \"id\":1, \"method\":\"\\u0074ools/call\","
                             "\"params\":{\"name\":\"read\"}}"));
  EXPECT_EQ(200, status_of(got)) << got;
  EXPECT_TRUE(has(script.received, R"({"jsonrpc":"2.0","id":1,"method":"tools/call")"))
      << script.received;
  EXPECT_TRUE(has(script.received, "accept-encoding: identity")) << script.received;
}

TEST(McpRelay, TricksAreRefused) {
  const std::string call =
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}})";
  const std::vector<std::pair<std::string, int>> requests{
      {post(R"({"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"})"), 400},
      {post(R"({"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"})"), 400},
      {post("[]"), 400},
      {post("not json"), 400},
      {post(call, "Content-Encoding: gzip\r\n"), 415},
      {post(call, "Mcp-Name: a\r\nMcp-Name: b\r\n"), 400},
      {post(call, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: ping\r\n"), 400},
      {post(R"({"jsonrpc":"2.0","method":"tools/call","params":{"name":"delete_all"}})"), 202},
      {post(std::string(2 << 20, ' ')), 413},
  };
  for (const auto& [request, status] : requests) {
    TestBoundary boundary;
    add_rule(boundary);
    Script script;
    const auto got = talk(boundary, script, request);
    EXPECT_EQ(status, status_of(got)) << request.substr(0, 200) << got;
    EXPECT_EQ("", script.received);
  }
}

TEST(McpRelay, ListsLoseWhatMayNotBeCalled) {
  const std::string list =
      R"({"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read"},{"name":"delete_all"}]}})";
  const auto between = list.find("\"result\"");
  const std::string events = concat("event: message\r\nid: 5\r\ndata: ", list.substr(0, between),
                                    "\r\ndata: ", list.substr(between), "\r\n\r\n: ping\n\n");
  const std::vector<std::string> replies{
      concat("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ", list.size(),
             "\r\n\r\n", list),
      concat("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ",
             events.size(), "\r\n\r\n", events),
  };
  for (const auto& reply : replies) {
    TestBoundary boundary;
    add_rule(boundary);
    Script script{.replies = {reply}, .until = "}"};
    const auto got =
        talk(boundary, script, post(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})"));
    EXPECT_EQ(200, status_of(got)) << got;
    EXPECT_TRUE(has(got, R"({"name":"read"})")) << got;
    EXPECT_FALSE(has(got, "delete_all")) << got;
  }
}

TEST(SseFilter, SignsOfLifeAreNotHeld) {
  HeldBytes held;
  SseFilter filter{[](Json message) { return message; }, {held, "sb-1"}};
  const std::string comment = ":" + std::string(1 << 20, 'x') + "\n";
  for (int i = 0; i < 8; ++i) {
    const auto passed = filter.feed(comment);
    ASSERT_TRUE(passed) << passed.error().message;
    EXPECT_EQ(comment, *passed);
  }
}

TEST(HeldBytes, ASandboxThatHoldsAllItMayLeavesTheOthersTheirs) {
  HeldBytes held;
  HeldBytes::Share greedy{held, "sb-1"};
  HeldBytes::Share other{held, "sb-2"};
  {
    HeldBytes::Share first{held, "sb-1"};
    ASSERT_TRUE(first.hold(kMaxSandboxHeldBytes));
    EXPECT_FALSE(greedy.hold(1));
    EXPECT_TRUE(other.hold(kMaxSandboxHeldBytes));
    EXPECT_TRUE(first.hold(1));
    EXPECT_TRUE(greedy.hold(1));
  }
  EXPECT_TRUE(greedy.hold(kMaxSandboxHeldBytes));
}

TEST(SseFilter, KeepsWhatIsNotChangedAndDoesNotWait) {
  HeldBytes held;
  SseFilter filter{[](Json message) { return message; }, {held, "sb-1"}};
  EXPECT_EQ(": hi\n", *filter.feed(": hi\n"));
  EXPECT_EQ("", *filter.feed("id: 1\r"));
  EXPECT_EQ("", *filter.feed("\ndata: {\"a\": 1}\n"));
  EXPECT_EQ("id: 1\ndata: {\"a\": 1}\n\n", *filter.feed("\n"));
  EXPECT_EQ("data: plain\n\n", *filter.feed("data:plain\n\n"));
}

}  // namespace
}  // namespace atl::proxy::http
