// MCP over HTTP: messages judged on their way out, lists of tools filtered on their way in.
//
// Whatever a POST to a covered host says its body is, it is read whole, parsed strictly, judged and
// written anew. Answers come as one JSON document or as server-sent events; any message in them
// that lists tools loses those that may not be called, whichever request it answers, because an
// answer may arrive on another stream than its request.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "egress/mcp_policy.h"
#include "proxy/connection.h"
#include "proxy/http/answer.h"
#include "proxy/http/body_filter.h"
#include "proxy/http/held_bytes.h"

namespace atl::proxy::http {

// One request under MCP rules, and its answer.
class McpExchange {
 public:
  // Asks for a plain answer in `request`, which outlives this, as do the rules.
  static Result<std::unique_ptr<McpExchange>> begin(
      const std::vector<const egress::ProtocolRule*>& rules, RequestHead& request);

  // An answer when the head alone says that it must not go on.
  std::optional<Answer> check_head(std::string_view flow_id) const;
  // An answer when it is denied; otherwise forward() goes on instead of the body.
  std::optional<Answer> judge(std::string_view body, std::string_view flow_id,
                              FlowAccount& account);
  const std::string& forward() const { return verdict_.forward; }
  // Null when the answer cannot list tools; what waits in it is counted in the share.
  Result<std::unique_ptr<BodyFilter>> answer_filter(const ResponseHead& head,
                                                    HeldBytes::Share share) const;

 private:
  McpExchange(std::unique_ptr<egress::McpPolicy> policy, RequestHead& request)
      : policy_(std::move(policy)), request_(request) {}
  // Where the headers repeat what the body says, they say the same.
  std::optional<std::string_view> mirror_violation(std::string_view body) const;

  std::unique_ptr<egress::McpPolicy> policy_;
  RequestHead& request_;
  egress::McpVerdict verdict_;
};

// A message without the tools that may not be called.
Json filter_tools(const egress::McpPolicy& policy, Json message);

}  // namespace atl::proxy::http
