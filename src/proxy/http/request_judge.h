// May this request go out, and as what?
//
// The rules are those of this moment. The authority must be the one that was decided on, the path
// is judged (and sent) in its one canonical form wherever a rule looks at paths, then the flow's
// and the request's rules speak. What comes out is a plan: the request as it will be sent, and
// what has to happen to bodies on the way.
#pragma once

#include <expected>
#include <optional>
#include <vector>

#include "egress/mcp_policy.h"
#include "proxy/http/answer.h"
#include "proxy/http/body_filter.h"
#include "proxy/http/conversation.h"
#include "proxy/http/exchange.h"

namespace atl::proxy::http {

struct Plan {
  egress::RulesPtr rules;  // everything below may point into them
  RequestHead request;
  std::string path;  // for the audit
  Route route;
  BodyFilters request_filters;
  bool changes_length = false;         // a request filter may
  std::vector<std::string> forbidden;  // placeholders that must not be in trailers either
  std::vector<const egress::ProtocolRule*> mcp_rules;
  std::vector<egress::MaterialPtr> materials;  // held as long as their values are in use
  bool redacts = false;
};

struct Verdict {
  std::optional<Answer> refusal;
  Plan plan;  // when there is no refusal
};
Task<Verdict> judge_request(Conversation& conversation, ClientSide& client);

}  // namespace atl::proxy::http
