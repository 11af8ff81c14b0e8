// Which MCP tools a sandbox may call, judged on the messages themselves.
//
// Streamable HTTP carries JSON-RPC in POST bodies, alone or in arrays. A body is parsed once,
// strictly (duplicate keys, depth and encoding are the parser's business), keys that differ from
// the protocol's only in case are refused, and what is sent on is the parsed form written anew, so
// that the server reads what we judged. Every element of an array is judged; one that is denied
// denies them all. A message without an id is judged like any other.
//
// A denial is a JSON-RPC error that an agent can read. The answer to tools/list loses the tools
// that would be denied.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "egress/policy.h"

namespace atl::egress {

inline constexpr std::size_t kMaxMcpBodyBytes = 1U << 20;
inline constexpr std::int64_t kMcpDeniedCode = -32003;

struct McpVerdict {
  // What to send to the server; empty when it is denied.
  std::string forward;
  // What to answer instead; empty for a denied notification, which gets 202 and no body.
  std::string denial;
  bool allowed = false;
  std::vector<std::string> operations;  // "tools/call read_file", for the audit
  std::string reason;                   // of a denial
  // Ids of tools/list requests, as JSON text: their answers are filtered.
  std::set<std::string> list_ids;
};

// The rules of one flow, compiled.
class McpPolicy {
 public:
  // kInvalidArgument names a pattern that does not compile.
  static Result<std::unique_ptr<McpPolicy>> compile(std::vector<const ProtocolRule*> rules);
  ~McpPolicy();
  McpPolicy(const McpPolicy&) = delete;
  McpPolicy& operator=(const McpPolicy&) = delete;

  // kInvalidArgument for a body that is not plain JSON-RPC: it is not sent on.
  Result<McpVerdict> judge(std::string_view body) const;
  // The answer without the tools that may not be called; as it was, when it is no such answer.
  Json filter_answer(Json message, const std::set<std::string>& list_ids) const;
  // Empty when the tool may be called with some arguments.
  std::string tool_denial(std::string_view name) const;

 private:
  struct Compiled;
  explicit McpPolicy(std::vector<Compiled> rules);
  std::string call_denial(const Json& message) const;
  Result<std::string> judge_message(const Json& message, McpVerdict& verdict) const;

  std::vector<Compiled> rules_;
};

}  // namespace atl::egress
