// Sandboxes as E2B's clients see them.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "control/access_tokens.h"
#include "control/public_names.h"
#include "control/sandbox_terms.h"
#include "control/snapshots.h"
#include "service/e2b/e2b_exchange.h"
#include "service/e2b/template_names.h"

namespace atl::service::e2b {

// The agent we are, for clients that choose features by it.
inline constexpr std::string_view kEnvdVersion = "0.6.13";

// What the routes of sandboxes work with; all of it outlives them.
struct SandboxParts {
  control::Sandboxes& sandboxes;
  control::SandboxTerms& terms;
  control::Snapshots& snapshots;
  control::SandboxLog& log;
  const control::AccessTokens& tokens;
  const TemplateNames& templates;
  const control::PublicNames& names;
  const WallClock& clock;
};

// What create, connect and fork answer: with the tokens.
Json sandbox_json(const SandboxParts& parts, const control::Sandbox& sandbox);
// One of a list.
Json listed_json(const SandboxParts& parts, const control::Sandbox& sandbox);
// With the access token for callers who may use it: who may only look gets none.
Json detail_json(const SandboxParts& parts, const control::Sandbox& sandbox,
                 const control::Principal& caller);

// Of the caller's team, by its id or by the old form that has a client's id behind; kNotFound in
// E2B's words, also for one that is on its way out.
Result<control::Sandbox> find_own(const SandboxParts& parts, E2bExchange& exchange,
                                  const std::string& id);
inline bool is_running(const control::Sandbox& sandbox) {
  return sandbox.status == control::SandboxStatus::kRunning ||
         sandbox.status == control::SandboxStatus::kStarting;
}

}  // namespace atl::service::e2b
