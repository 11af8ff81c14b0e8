// Building templates: the request, the files, the start, how it goes.
#pragma once

#include "service/e2b/templates/template_routes.h"
#include "service/e2b/templates/upload_links.h"

namespace atl::service::e2b {

class BuildRoutes {
 public:
  explicit BuildRoutes(TemplateParts parts) : parts_(parts), links_(parts.tokens, parts.clock) {}
  void add_to(E2bRoutes& routes);

 private:
  Task<> request(E2bExchange& exchange, std::string_view name_field, std::string rebuilt);
  Task<> link(E2bExchange& exchange, std::string id, std::string hash);
  Task<> upload(E2bExchange& exchange, std::string hash);
  Task<> start(E2bExchange& exchange, std::string id, std::string build_id);
  Task<> status(E2bExchange& exchange, std::string id, std::string build_id);
  Task<> logs(E2bExchange& exchange, std::string id, std::string build_id);
  std::vector<std::string> lines_of(const control::FamilyBuild& build, std::uint64_t from,
                                    std::size_t limit) const;

  TemplateParts parts_;
  UploadLinks links_;
};

}  // namespace atl::service::e2b
