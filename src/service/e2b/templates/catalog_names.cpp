#include "service/e2b/templates/catalog_names.h"

namespace atl::service::e2b {

std::string plain_alias(const control::Template& row) {
  return row.alias.empty() ? row.name : row.alias;
}

Result<std::string> CatalogNames::resolve(std::string_view team_id, std::string_view asked) const {
  TRY(auto choice, catalog_.choose(team_id, asked));
  return std::move(choice.template_name);
}

bool CatalogNames::taken(std::string_view team_id, std::string_view alias) const {
  return catalog_.find(team_id, alias) || catalog_.choose(team_id, alias);
}

TemplateName CatalogNames::describe(std::string_view name) const {
  if (const auto family = catalog_.family_of(name)) {
    return {family->id, family->alias};
  }
  // Only the server's own have aliases, and everybody sees those.
  if (const auto row = sandboxes_.templates().find(name, ""); row && row->name == name) {
    return {control::derived_template_id(row->name), plain_alias(*row)};
  }
  return {control::derived_template_id(name), std::string{name}};
}

}  // namespace atl::service::e2b
