#include "service/e2b/templates/template_routes.h"

#include <algorithm>

#include "base/strings.h"
#include "service/e2b/lenient_fields.h"
#include "service/e2b/sandboxes/list_request.h"
#include "service/e2b/templates/catalog_names.h"
#include "service/e2b/templates/template_json.h"
#include "service/native/envelope.h"

namespace atl::service::e2b {
namespace {

using control::Permission;
using native::rfc3339;

struct Page {
  Json items = Json::array();
  http::Headers headers;
};
// Newest first, and the rest after a token whatever has gone meanwhile.
Result<Page> page_of(std::vector<Listed> all, std::string_view query) {
  std::size_t limit = 0;
  std::optional<PageToken> after;
  TRY_DO(parse_page(query, limit, after));
  std::ranges::sort(all, std::ranges::greater{}, &Listed::place);
  Page page;
  const Listed* last = nullptr;
  for (Listed& each : all) {
    if (after && each.place >= std::pair{after->at, after->id}) {
      continue;
    }
    if (page.items.as_array()->size() == limit) {
      page.headers.set("X-Next-Token", format_page_token({last->place.first, last->place.second}));
      break;
    }
    last = &each;
    page.items.push(std::move(each.json));
  }
  return page;
}

}  // namespace

void TemplateRoutes::add_to(E2bRoutes& routes) {
  const auto read = [&](std::string_view pattern, Task<> (TemplateRoutes::*handler)(E2bExchange&)) {
    routes.add("GET", pattern, Permission::kTemplateRead,
               [this, handler](E2bExchange& e, const auto&) { return (this->*handler)(e); });
  };
  const auto of_one = [&](std::string_view method, std::string_view pattern, Permission permission,
                          Task<> (TemplateRoutes::*handler)(E2bExchange&, std::string)) {
    routes.add(method, pattern, permission, [this, handler](E2bExchange& e, const auto& p) {
      return (this->*handler)(e, parameter(p, "id"));
    });
  };
  read("/templates", &TemplateRoutes::list);
  read("/v2/templates", &TemplateRoutes::list_page);
  read("/default-templates", &TemplateRoutes::list_default);
  of_one("GET", "/templates/{id}", Permission::kTemplateRead, &TemplateRoutes::get);
  of_one("GET", "/templates/aliases/{id}", Permission::kTemplateRead, &TemplateRoutes::find_alias);
  of_one("PATCH", "/templates/{id}", Permission::kTemplateWrite, &TemplateRoutes::update);
  of_one("PATCH", "/v2/templates/{id}", Permission::kTemplateWrite, &TemplateRoutes::update);
  of_one("GET", "/templates/{id}/tags", Permission::kTemplateRead, &TemplateRoutes::list_tags);
  of_one("GET", "/templates/{id}/tags/exists", Permission::kTemplateRead,
         &TemplateRoutes::tag_exists);
  of_one("GET", "/templates/{id}/tags/count", Permission::kTemplateRead,
         &TemplateRoutes::count_tags);
  routes.add("POST", "/templates/tags", Permission::kTemplateWrite,
             [this](E2bExchange& e, const auto&) { return assign_tags(e); });
  routes.add("DELETE", "/templates/tags", Permission::kTemplateWrite,
             [this](E2bExchange& e, const auto&) { return remove_tags(e); });
}

// --- lists -----------------------------------------------------------------------------------

// What was built, newest first, then what was made in other ways.
std::vector<Listed> TemplateRoutes::all_of(std::string_view team_id) const {
  std::vector<Listed> all;
  for (const auto& family : parts_.catalog.list(team_id)) {
    all.push_back(
        {{family->created_at, family->id}, family_json(*family, parts_.sandboxes.templates())});
  }
  for (const control::Template& row : parts_.sandboxes.templates().all()) {
    if (!row.builtin && row.team_id == team_id && parts_.catalog.family_of(row.name) == nullptr) {
      all.push_back({{row.created_at, control::derived_template_id(row.name)},
                     plain_json(row, parts_.sandboxes.templates(), team_id)});
    }
  }
  return all;
}

Task<> TemplateRoutes::list(E2bExchange& exchange) {
  Json items = Json::array();
  for (Listed& each : all_of(exchange.principal().team_id)) {
    items.push(std::move(each.json));
  }
  co_return co_await exchange.respond_json(200, items);
}

Task<> TemplateRoutes::list_page(E2bExchange& exchange) {
  CO_TRY(auto page, page_of(all_of(exchange.principal().team_id), exchange.request().query));
  co_return co_await exchange.respond_json(200, page.items, std::move(page.headers));
}

Task<> TemplateRoutes::list_default(E2bExchange& exchange) {
  Json items = Json::array();
  for (const control::Template& row : parts_.sandboxes.templates().all()) {
    if (row.builtin) {
      items.push(plain_json(row, parts_.sandboxes.templates(), ""));
    }
  }
  co_return co_await exchange.respond_json(200, items);
}

Task<> TemplateRoutes::get(E2bExchange& exchange, std::string id) {
  const std::string& team_id = exchange.principal().team_id;
  const auto family = parts_.catalog.own(team_id, id);
  if (!family) {
    CO_TRY(const auto choice, parts_.catalog.choose(team_id, id));
    if (choice.family != nullptr) {
      co_return fail(family.error());
    }
    CO_TRY(const auto row, parts_.sandboxes.templates().find(choice.template_name, team_id));
    Json json = plain_json(row, parts_.sandboxes.templates(), team_id);
    json.set("builds", Json::array());
    co_return co_await exchange.respond_json(200, json);
  }
  std::vector<Listed> builds;
  for (const control::FamilyBuild& build : (*family)->builds) {
    builds.push_back({{build.created_at, build.id}, build_json(build)});
  }
  CO_TRY(auto page, page_of(std::move(builds), exchange.request().query));
  Json json = family_json(**family, parts_.sandboxes.templates());
  json.set("builds", std::move(page.items));
  co_return co_await exchange.respond_json(200, json, std::move(page.headers));
}

// Whether a name is taken: by the caller, by somebody who shows it to all, or not that we tell.
Task<> TemplateRoutes::find_alias(E2bExchange& exchange, std::string alias) {
  const std::string& team_id = exchange.principal().team_id;
  CO_TRY(const auto title, control::parse_title(alias));
  std::string id;
  bool is_public = false;
  if (const auto family = parts_.catalog.find(team_id, alias)) {
    if ((*family)->team_id != team_id) {
      co_return fail(Code::kPermissionDenied, concat("template '", alias, "' is of another team"));
    }
    if (!title.tag.empty()) {
      CO_TRY_DO(parts_.catalog.choose(team_id, alias));
    }
    id = (*family)->id;
    is_public = (*family)->is_public;
  } else {
    CO_TRY(const auto choice, parts_.catalog.choose(team_id, alias));
    CO_TRY(const auto row, parts_.sandboxes.templates().find(choice.template_name, team_id));
    id = control::derived_template_id(row.name);
    is_public = row.builtin;
  }
  co_return co_await exchange.respond_json(
      200, Json::object({{"templateID", id}, {"public", is_public}}));
}

// --- changes ---------------------------------------------------------------------------------

Task<> TemplateRoutes::update(E2bExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"public"}));
  CO_TRY(const auto is_public, fields->boolean("public"));
  const std::string& team_id = exchange.principal().team_id;
  CO_TRY(auto family, parts_.catalog.own(team_id, id));
  if (is_public) {
    CO_TRY(family, co_await parts_.catalog.set_public(team_id, id, *is_public));
  }
  co_return co_await exchange.respond_json(
      200, Json::object({{"names", strings_json({full_name(*family)})}}));
}

Task<> TemplateRoutes::remove(E2bExchange& exchange, const http::PathParameters& parameters) {
  const std::string id = parameter(parameters, "id");
  const std::string& team_id = exchange.principal().team_id;
  if (!exchange.principal().may(Permission::kTemplateWrite)) {
    co_return fail(Code::kPermissionDenied,
                   "the roles of this API key do not allow template:write");
  }
  const auto family = parts_.catalog.find(team_id, id);
  if (family) {
    CO_TRY_DO(co_await parts_.catalog.remove(team_id, id));
  } else {
    CO_TRY(const auto choice, parts_.catalog.choose(team_id, id));
    CO_TRY_DO(co_await parts_.jobs.remove({team_id, choice.template_name}));
  }
  co_return co_await exchange.respond_empty(204);
}

// --- tags ------------------------------------------------------------------------------------

Task<> TemplateRoutes::assign_tags(E2bExchange& exchange) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"target", "tags"}));
  CO_TRY(const std::string target, fields->required_string("target"));
  CO_TRY(const auto tags, fields->strings("tags"));
  if (tags.empty()) {
    co_return fail(Code::kInvalidArgument, "tags is empty");
  }
  CO_TRY(const std::string build_id,
         co_await parts_.catalog.assign_tags(exchange.principal().team_id, target, tags));
  Json assigned = Json::array();
  for (const std::string& tag : tags) {
    assigned.push(to_lower(trim(tag)));
  }
  co_return co_await exchange.respond_json(
      201, Json::object({{"buildID", build_id}, {"tags", std::move(assigned)}}));
}

Task<> TemplateRoutes::remove_tags(E2bExchange& exchange) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"name", "tags"}));
  CO_TRY(const std::string name, fields->required_string("name"));
  CO_TRY(const auto tags, fields->strings("tags"));
  CO_TRY_DO(co_await parts_.catalog.remove_tags(exchange.principal().team_id, name, tags));
  co_return co_await exchange.respond_empty(204);
}

Task<> TemplateRoutes::list_tags(E2bExchange& exchange, std::string id) {
  CO_TRY(const auto family, parts_.catalog.own(exchange.principal().team_id, id));
  Json tags = Json::array();
  for (const control::FamilyTag& tag : family->tags) {
    tags.push(Json::object(
        {{"tag", tag.tag}, {"buildID", tag.build_id}, {"createdAt", rfc3339(tag.created_at)}}));
  }
  co_return co_await exchange.respond_json(200, tags);
}

Task<> TemplateRoutes::tag_exists(E2bExchange& exchange, std::string id) {
  CO_TRY(const auto family, parts_.catalog.own(exchange.principal().team_id, id));
  CO_TRY(const std::string tag,
         control::parse_tag(http::query_value(exchange.request().query, "tag").value_or("")));
  co_return co_await exchange.respond_json(
      200, Json::object({{"exists", family->tag(tag) != nullptr}, {"normalizedTag", tag}}));
}

Task<> TemplateRoutes::count_tags(E2bExchange& exchange, std::string id) {
  CO_TRY(const auto family, parts_.catalog.own(exchange.principal().team_id, id));
  co_return co_await exchange.respond_json(200, Json::object({{"total", family->tags.size()}}));
}

}  // namespace atl::service::e2b
