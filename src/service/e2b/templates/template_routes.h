// Templates: the list, names, tags, who may use them. Builds are in build_routes.h.
#pragma once

#include "control/access_tokens.h"
#include "control/build_files.h"
#include "control/public_names.h"
#include "control/template_catalog.h"
#include "service/e2b/e2b_routes.h"

namespace atl::service::e2b {

// What the routes of templates work with; all of it outlives them.
struct TemplateParts {
  const control::Sandboxes& sandboxes;
  const control::Snapshots& snapshots;
  control::TemplateCatalog& catalog;
  control::TemplateJobs& jobs;
  control::BuildFiles& files;
  const control::AccessTokens& tokens;
  const control::PublicNames& names;
  const WallClock& clock;
};

// One of a list, and its place there.
struct Listed {
  std::pair<UnixMillis, std::string> place;
  Json json;
};

class TemplateRoutes {
 public:
  explicit TemplateRoutes(TemplateParts parts) : parts_(parts) {}
  void add_to(E2bRoutes& routes);
  // DELETE /templates/{id}; checks itself whether the caller may.
  Task<> remove(E2bExchange& exchange, const http::PathParameters& parameters);

 private:
  Task<> list(E2bExchange& exchange);
  Task<> list_page(E2bExchange& exchange);
  Task<> list_default(E2bExchange& exchange);
  Task<> get(E2bExchange& exchange, std::string id);
  Task<> find_alias(E2bExchange& exchange, std::string alias);
  Task<> update(E2bExchange& exchange, std::string id);
  Task<> assign_tags(E2bExchange& exchange);
  Task<> remove_tags(E2bExchange& exchange);
  Task<> list_tags(E2bExchange& exchange, std::string id);
  Task<> tag_exists(E2bExchange& exchange, std::string id);
  Task<> count_tags(E2bExchange& exchange, std::string id);
  std::vector<Listed> all_of(std::string_view team_id) const;

  TemplateParts parts_;
};

}  // namespace atl::service::e2b
