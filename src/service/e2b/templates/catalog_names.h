// Names of templates as the catalog has them: ids and aliases of what was built, derived ids of
// what was not.
#pragma once

#include "control/template_catalog.h"
#include "service/e2b/template_names.h"

namespace atl::service::e2b {

class CatalogNames final : public TemplateNames {
 public:
  CatalogNames(const control::TemplateCatalog& catalog, const control::Sandboxes& sandboxes)
      : catalog_(catalog), sandboxes_(sandboxes) {}
  Result<std::string> resolve(std::string_view team_id, std::string_view asked) const override;
  bool taken(std::string_view team_id, std::string_view alias) const override;
  TemplateName describe(std::string_view name) const override;

 private:
  const control::TemplateCatalog& catalog_;
  const control::Sandboxes& sandboxes_;
};

// What people call a template that was not built: the server's own has an alias.
std::string plain_alias(const control::Template& row);

}  // namespace atl::service::e2b
