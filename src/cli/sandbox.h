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
  std::string template_name;
  std::string status;
};

// The body of POST /api/v1/sandboxes.
Json create_body(const SandboxOptions& options);
// Waits with a spinner.
Task<CreatedSandbox> create_sandbox(CommandContext& context, Api& api,
                                    const SandboxOptions& options);
Task<> delete_sandbox(Api& api, const std::string& id);
// For a session of its own. A signal meanwhile does not abandon the request, as the sandbox might
// come to be without anybody knowing its id: the answer is awaited and the sandbox deleted. nullopt
// then.
Task<std::optional<CreatedSandbox>> create_for_session(CommandContext& context,
                                                       const SandboxOptions& options);
// On the way out: under the interrupts' cleanup, and a failure is only reported.
Task<> remove_sandbox(CommandContext& context, Interrupts& interrupts, std::string id);
// All pages.
Task<std::vector<Json>> list_sandboxes(Api& api);

}  // namespace atl::cli
