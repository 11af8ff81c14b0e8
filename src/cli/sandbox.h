// The calls on sandboxes that several commands share.
#pragma once

#include <string>
#include <vector>

#include "cli/api.h"
#include "cli/commands.h"
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
// All pages.
Task<std::vector<Json>> list_sandboxes(Api& api);

}  // namespace atl::cli
