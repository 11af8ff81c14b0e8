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

control::ListRequest ListRoutes::request_of(const std::string& team_id,
                                            const ListQuery& query) const {
  control::ListRequest request{.team_id = team_id,
                               .labels = query.metadata,
                               .limit = std::numeric_limits<std::size_t>::max()};
  if (!query.template_name.empty()) {
    const auto name = parts_.templates.resolve(team_id, query.template_name);
    request.template_name = name.value_or(query.template_name);
  }
  return request;
}

std::vector<Sandbox> ListRoutes::find(const std::string& team_id, const ListQuery& query) const {
  auto found = parts_.sandboxes.list(request_of(team_id, query)).sandboxes;
  std::erase_if(found, [&](const Sandbox& sandbox) { return !matches(sandbox, query); });
  std::ranges::sort(found, [&](const Sandbox& a, const Sandbox& b) {
    return comes_before(a, b, query.ascending);
  });
  return found;
}

// The newest first is the order that control keeps: then nobody copies thousands for one page.
std::vector<Sandbox> ListRoutes::find_page(const std::string& team_id,
                                           const ListQuery& query) const {
  std::vector<Sandbox> page;
  if (query.ascending) {
    page = find(team_id, query);
    std::erase_if(page, [&](const Sandbox& sandbox) {
      return query.after && !is_after(sandbox, *query.after);
    });
    page.resize(std::min(page.size(), query.limit + 1));
    return page;
  }
  control::ListRequest request = request_of(team_id, query);
  request.limit = query.limit + 1;
  if (query.after) {
    request.after = control::ListCursor{query.after->at, query.after->id};
  }
  for (bool more = true; more && page.size() <= query.limit;) {
    auto some = parts_.sandboxes.list(request);
    more = some.has_more;
    for (Sandbox& sandbox : some.sandboxes) {
      request.after = control::ListCursor{sandbox.created_at, sandbox.id};
      if (page.size() <= query.limit && matches(sandbox, query)) {
        page.push_back(std::move(sandbox));
      }
    }
  }
  return page;
}

std::size_t ListRoutes::count_running(const std::string& team_id, const ListQuery& query) const {
  const control::ListRequest request = request_of(team_id, query);
  std::size_t count = 0;
  parts_.sandboxes.each([&](const Sandbox& row) {
    const bool counts = row.team_id == team_id && is_running(row) && matches(row, query) &&
                        (!request.template_name || row.template_name == *request.template_name) &&
                        std::ranges::all_of(query.metadata, [&](const auto& wanted) {
                          const auto found = row.labels.find(wanted.first);
                          return found != row.labels.end() && found->second == wanted.second;
                        });
    count += counts ? 1 : 0;
  });
  return count;
}

Task<> ListRoutes::list(E2bExchange& exchange) {
  CO_TRY(const ListQuery query, parse_list_query(exchange.request().query));
  const std::string& team_id = exchange.principal().team_id;
  http::Headers headers;
  if (query.running) {
    headers.add("X-Total-Running", std::to_string(count_running(team_id, query)));
  }
  auto found = find_page(team_id, query);
  if (found.size() > query.limit) {
    found.pop_back();
    const Sandbox& last = found.back();
    headers.add("X-Next-Token", format_page_token({last.created_at, last.id, query.ascending}));
  }
  Json page = Json::array();
  for (const Sandbox& sandbox : found) {
    page.push(listed_json(parts_, sandbox));
  }
  co_return co_await exchange.respond_json(200, page, std::move(headers));
}

Task<> ListRoutes::list_running(E2bExchange& exchange) {
  ListQuery query;
  if (const auto metadata = http::query_value(exchange.request().query, "metadata")) {
    CO_TRY(query.metadata, parse_metadata(*metadata));
  }
  const auto found = find(exchange.principal().team_id, query);
  Json all = Json::array();
  for (const Sandbox& sandbox : found) {
    all.push(listed_json(parts_, sandbox));
  }
  co_return co_await exchange.respond_json(200, all);
}

}  // namespace atl::service::e2b
