// The spec of a template: the client's JSON, checked, and what it means.
//
// The shape is the contract's SandboxTemplateSpec (camelCase). What this build cannot honour is
// refused by name instead of stored and forgotten.
#pragma once

#include <set>
#include <string>

#include "base/json.h"
#include "control/templates.h"

namespace atl::control {

inline constexpr std::string_view kPlatformUser = "user";
inline constexpr std::string_view kPlatformDirectory = "/workspace";

struct TemplateSpec {
  std::string image;  // empty: it comes from a build or an import
  store::StringMap env;
  ResourceRequest resources;
  bool ephemeral_tmp = false;
  std::set<std::string, std::less<>> read_only_mounts;
  NetworkRequestPtr network;  // null: none
  std::optional<PoolBounds> pool;
  std::vector<std::string> preload;
};

Result<TemplateSpec> parse_template_spec(const Json& spec);
// Image configuration below, spec above.
TemplateDefaults template_defaults(const Template& value);
TemplateNetwork template_network(const Template& value);

}  // namespace atl::control
