// From what a sandbox did to the smallest policy that lets it do that again: block-all, and allow
// rules for what was seen.
//
// Names come before addresses, since addresses of a service change. Flows of one port and protocol
// become one rule. With `wildcards`, several names below the same domain become one pattern; never
// below a suffix that is not one organisation's own, as far as two labels can tell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "egress/decision.h"

namespace atl::egress {

// A flow as the log has it.
struct Observation {
  Flow flow;
  bool has_address = false;
  bool allowed = true;  // it was let through
  bool intercepted = false;
};

struct LearnOptions {
  bool wildcards = false;
  bool include_denied = false;  // also what was refused
};

// Names of one domain that make a pattern.
inline constexpr std::size_t kSiblingsOfWildcard = 3;

struct Lesson {
  Policy policy;
  std::size_t used = 0;      // observations that the policy is made of
  std::size_t left_out = 0;  // refused ones, and DNS questions
};
Lesson learn(const std::vector<Observation>& observations, const LearnOptions& options);

// What a draft changes for one flow of the log.
struct Change {
  std::size_t index = 0;  // of the observation
  bool was_allowed = false;
  Decision now;
};
struct Replay {
  std::vector<Change> changes;
  std::size_t unchanged = 0;
  bool denies_what_was_allowed() const;
};
Replay replay(PolicyStack draft, const std::vector<Observation>& observations);

}  // namespace atl::egress
