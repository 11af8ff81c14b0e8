#include "service/e2b/sandboxes/list_routes.h"

#include <algorithm>
#include <limits>

#include "base/strings.h"

namespace atl::service::e2b {
namespace {

using control::Sandbox;

bool comes_before(const Sandbox& a, const Sandbox& b, bool ascending) {
  if (a.created_at != b.created_at) {
    return (a.created_at < b.created_at) == ascending;
  }
  return a.id < b.id;
}

bool is_after(const Sandbox& sandbox, const PageToken& token) {
  return sandbox.created_at == token.at ? sandbox.id > token.id
                                        : (sandbox.created_at > token.at) == token.ascending;
}

bool matches(const Sandbox& sandbox, const ListQuery& query) {
  using control::SandboxStatus;
  if (sandbox.status == SandboxStatus::kTerminating) {
    return false;
  }
  return (is_running(sandbox) ? query.running : query.paused) &&
         (!query.started_after || sandbox.created_at >= *query.started_after);
}

}  // namespace

void ListRoutes::add_to(E2bRoutes& routes) {
  routes.add("GET", "/v2/sandboxes", control::Permission::kSandboxRead,
             [this](E2bExchange& exchange, const auto&) { return list(exchange); });
  routes.add("GET", "/sandboxes", control::Permission::kSandboxRead,
             [this](E2bExchange& exchange, const auto&) { return list_running(exchange); });
}

Result<std::vector<Sandbox>> ListRoutes::find(const std::string& team_id,
                                              const ListQuery& query) const {
  control::ListRequest request{.team_id = team_id,
                               .labels = query.metadata,
                               .limit = std::numeric_limits<std::size_t>::max()};
  if (!query.template_name.empty()) {
    const auto name = parts_.templates.resolve(team_id, query.template_name);
    request.template_name = name.value_or(query.template_name);
  }
  auto found = parts_.sandboxes.list(request).sandboxes;
  std::erase_if(found, [&](const Sandbox& sandbox) { return !matches(sandbox, query); });
  std::ranges::sort(found, [&](const Sandbox& a, const Sandbox& b) {
    return comes_before(a, b, query.ascending);
  });
  return found;
}

Task<> ListRoutes::list(E2bExchange& exchange) {
  CO_TRY(const ListQuery query, parse_list_query(exchange.request().query));
  CO_TRY(const auto found, find(exchange.principal().team_id, query));
  http::Headers headers;
  if (query.running) {
    headers.add("X-Total-Running", std::to_string(std::ranges::count_if(found, is_running)));
  }
  Json page = Json::array();
  const Sandbox* last = nullptr;
  for (const Sandbox& sandbox : found) {
    if (query.after && !is_after(sandbox, *query.after)) {
      continue;
    }
    if (page.as_array()->size() == query.limit) {
      headers.add("X-Next-Token", format_page_token({last->created_at, last->id, query.ascending}));
      break;
    }
    last = &sandbox;
    page.push(listed_json(parts_, sandbox));
  }
  co_return co_await exchange.respond_json(200, page, std::move(headers));
}

Task<> ListRoutes::list_running(E2bExchange& exchange) {
  ListQuery query;
  if (const auto metadata = http::query_value(exchange.request().query, "metadata")) {
    CO_TRY(query.metadata, parse_metadata(*metadata));
  }
  CO_TRY(const auto found, find(exchange.principal().team_id, query));
  Json all = Json::array();
  for (const Sandbox& sandbox : found) {
    all.push(listed_json(parts_, sandbox));
  }
  co_return co_await exchange.respond_json(200, all);
}

}  // namespace atl::service::e2b
