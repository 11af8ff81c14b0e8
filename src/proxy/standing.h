// A connection as it stands, and what new rules make of it.
#pragma once

#include "proxy/judge.h"

namespace atl::proxy {

// Borrowed from the connection.
struct Standing {
  const egress::Flow& flow;
  const egress::Classified* contents;  // null: nobody knows
  std::string_view dialled;            // as its record has it
  std::string_view approved;           // see rule_key
  const std::optional<egress::UpstreamProxy>& through;
  const std::optional<egress::Binding>& credential;  // that its handler logs in with
  Handling handling;                                 // when it was handed over
  bool is_peer;
  bool was_looked_at;
  bool is_connected;
  bool is_handed_over;
};

// Why it is cut; nothing when it goes on.
std::optional<Verdict> cut_by(const egress::SandboxRules& rules, const Standing& standing,
                              egress::Peers& peers);

}  // namespace atl::proxy
