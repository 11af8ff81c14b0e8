// Why a flow is let through or not, for people: what each policy says about it, whose word counts,
// and what would have to change.
#pragma once

#include <string>
#include <vector>

#include "egress/decision.h"

namespace atl::egress {

struct LayerVerdict {
  std::string origin;  // "operator", "template", "sandbox"
  Decision decision;
};

struct Explanation {
  Decision decision;   // what counts
  std::string origin;  // whose policy that is; "class": closed before any policy is asked
  std::vector<LayerVerdict> layers;
  std::vector<std::string> advice;
};

// `closed`: what the guard over addresses has against the flow's; nothing for a name, which is
// resolved when it is dialled, and only then can its addresses be closed.
Explanation explain(PolicyStack policies, const Flow& flow, std::optional<std::string> closed);

std::string_view action_name(Action action);  // "allow"

}  // namespace atl::egress
