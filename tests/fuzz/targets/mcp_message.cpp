// MCP messages against a rule that closes a tool: what is sent on never calls it, whoever reads it.
#include "base/json.h"
#include "egress/mcp_policy.h"
#include "fuzz.h"

namespace atl::fuzz {
namespace {

const egress::McpPolicy& policy() {
  static const auto made = [] {
    static egress::ProtocolRule rule;
    rule.protocol = egress::RuleProtocol::kMcp;
    rule.tools.denied = {"closed"};
    rule.arguments = {{.tool = "read", .pointer = "/path", .pattern = "/data/.*"}};
    auto compiled = egress::McpPolicy::compile({&rule});
    CHECK(compiled);
    return *std::move(compiled);
  }();
  return *made;
}

bool calls_closed(const Json& message) {
  if (const auto* array = message.as_array()) {
    for (const auto& each : *array) {
      if (calls_closed(each)) {
        return true;
      }
    }
    return false;
  }
  const auto* method = message.find("method");
  const auto* parameters = message.find("params");
  const auto* name = parameters != nullptr ? parameters->find("name") : nullptr;
  return method != nullptr && method->as_string() != nullptr &&
         *method->as_string() == "tools/call" && name != nullptr && name->as_string() != nullptr &&
         *name->as_string() == "closed";
}

}  // namespace

void mcp_message(std::string_view input) {
  const auto verdict = policy().judge(input);
  if (!verdict) {
    return;
  }
  if (!verdict->allowed) {
    CHECK(verdict->forward.empty() && !verdict->reason.empty());
    CHECK(verdict->denial.empty() || Json::parse(verdict->denial));
    return;
  }
  const auto forwarded = Json::parse(verdict->forward);
  CHECK(forwarded && !calls_closed(*forwarded));
  const auto again = policy().judge(verdict->forward);
  CHECK(again && again->allowed && again->forward == verdict->forward);
}

Seeds mcp_message_seeds() {
  return {
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"closed"}})",
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open","arguments":{}}})",
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read",)"
      R"("arguments":{"path":"/data/x"}}})",
      R"([{"jsonrpc":"2.0","id":1,"method":"tools/list"},)"
      R"({"jsonrpc":"2.0","method":"notifications/initialized"}])",
      R"({"jsonrpc":"2.0","id":"a","method":"ping","Method":"tools/call"})",
      R"({"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"closed"}]}})",
  };
}

}  // namespace atl::fuzz
