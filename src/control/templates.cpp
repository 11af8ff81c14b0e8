#include "control/templates.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::control {
namespace {

std::string_view alias_of(std::string_view name) {
  return name == "default" ? "base" : "";
}

}  // namespace

Task<> Templates::refresh(StoreAccess store, std::vector<node::TemplateInfo> infos,
                          UnixMillis now) {
  std::vector<Template> fresh;
  std::vector<Template> changed;
  for (auto& info : infos) {
    Template value{.name = std::move(info.name), .layers = std::move(info.layers)};
    value.alias = alias_of(value.name);
    const auto known = std::find_if(templates_.begin(), templates_.end(), [&](const Template& t) {
      return t.name == value.name && t.layers == value.layers;
    });
    if (known != templates_.end()) {
      value = *known;
    } else {
      value.updated_at = now;
      changed.push_back(value);
    }
    fresh.push_back(std::move(value));
  }
  if (!changed.empty()) {
    CO_TRY_DO(co_await store.run([&changed](store::Store& rows) -> Result<> {
      for (const auto& value : changed) {
        TRY_DO(rows.put_template(value));
      }
      return {};
    }));
  }
  templates_ = std::move(fresh);
  co_return ok();
}

Result<Template> Templates::find(std::string_view name) const {
  std::string known;
  for (const auto& value : templates_) {
    if (value.name == name || (!value.alias.empty() && value.alias == name)) {
      return value;
    }
    known += known.empty() ? "" : ", ";
    known += value.name;
  }
  return fail(Code::kNotFound,
              concat("there is no template \"", to_valid_utf8(name),
                     "\"; there is: ", known.empty() ? "none" : known),
              "template_not_found");
}

}  // namespace atl::control
