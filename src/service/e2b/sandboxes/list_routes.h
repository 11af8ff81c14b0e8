// Lists of sandboxes.
#pragma once

#include "service/e2b/e2b_routes.h"
#include "service/e2b/sandboxes/list_request.h"
#include "service/e2b/sandboxes/sandbox_view.h"

namespace atl::service::e2b {

class ListRoutes {
 public:
  explicit ListRoutes(SandboxParts parts) : parts_(parts) {}
  void add_to(E2bRoutes& routes);

 private:
  Task<> list(E2bExchange& exchange);
  Task<> list_running(E2bExchange& exchange);
  control::ListRequest request_of(const std::string& team_id, const ListQuery& query) const;
  // In order, all pages.
  std::vector<control::Sandbox> find(const std::string& team_id, const ListQuery& query) const;
  // In order, the page and one more when there is one.
  std::vector<control::Sandbox> find_page(const std::string& team_id, const ListQuery& query) const;
  std::size_t count_running(const std::string& team_id, const ListQuery& query) const;

  SandboxParts parts_;
};

}  // namespace atl::service::e2b
