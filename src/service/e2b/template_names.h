// How templates are called: clients say an id, an alias or namespace/alias:tag, control has names.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::service::e2b {

struct TemplateName {
  std::string id;
  std::string alias;  // empty: none
};

class TemplateNames {
 public:
  virtual ~TemplateNames() = default;
  // The name that control knows; kNotFound.
  virtual Result<std::string> resolve(std::string_view team_id, std::string_view asked) const = 0;
  // Whether a template of this name is there for the team, be it without a build.
  virtual bool taken(std::string_view team_id, std::string_view alias) const = 0;
  // What a client is told; also of templates that are gone.
  virtual TemplateName describe(std::string_view name) const = 0;
};

}  // namespace atl::service::e2b
