// The templates a sandbox can be made from: what the node has, with the names people use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/store_access.h"
#include "node/protocol.h"

namespace atl::control {

using Template = store::Template;

class Templates {
 public:
  // Takes over what the node has now, and remembers it in the store where it changed.
  Task<> refresh(StoreAccess store, std::vector<node::TemplateInfo> infos, UnixMillis now);
  // By name or alias; kNotFound names the ones there are.
  Result<Template> find(std::string_view name) const;
  const std::vector<Template>& all() const { return templates_; }

 private:
  std::vector<Template> templates_;
};

}  // namespace atl::control
