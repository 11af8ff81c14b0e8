// The calls on sandboxes that several commands share.
#pragma once

#include <string>
#include <vector>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/options.h"

namespace atl::cli {

struct CreatedSandbox {
  std::string id;
  std::string name;  // empty: none
  std::string template_name;
  std::string status;
};

// The id of what a person called by its id or its name. A word that is neither stays as it is: the
// server says so best.
Task<std::string> resolve_sandbox(Api& api, std::string word);
// The path of what a person called: of a snapshot (snap-…), or of a sandbox by its id or its name.
Task<std::string> resolve_state_path(Api& api, std::string word);
// The `config` of a create or an update: what was given, nothing else.
Json sandbox_config(const SandboxOptions& options);
// The body of POST /api/v1/sandboxes.
Json create_body(const SandboxOptions& options);
// Waits with a spinner.
Task<CreatedSandbox> create_sandbox(CommandContext& context, Api& api,
                                    const SandboxOptions& options);
// Several at once, all or none.
Task<std::vector<CreatedSandbox>> create_sandboxes(CommandContext& context, Api& api,
                                                   const SandboxOptions& options,
                                                   std::uint32_t count);
Task<> delete_sandbox(Api& api, const std::string& id);
// For a session of its own. A signal meanwhile does not abandon the request, as the sandbox might
// come to be without anybody knowing its id: the answer is awaited and the sandbox deleted. nullopt
// then.
Task<std::optional<CreatedSandbox>> create_for_session(CommandContext& context,
                                                       const SandboxOptions& options);
// On the way out: under the interrupts' cleanup, and a failure is only reported.
Task<> remove_sandbox(CommandContext& context, Interrupts& interrupts, std::string id);
// All pages; of those with all of the labels.
Task<std::vector<Json>> list_sandboxes(Api& api, EnvVars labels);

}  // namespace atl::cli
