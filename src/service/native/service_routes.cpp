#include "service/native/service_routes.h"

#include <algorithm>

#include "base/strings.h"
#include "control/service_document.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {
namespace {

using control::Permission;

constexpr std::size_t kMaxPreviewPathBytes = 2048;

Result<std::int64_t> parse_ttl(const Fields& fields) {
  TRY(const auto ttl,
      fields.integer("ttl_seconds", control::kMinPreviewSeconds, control::kMaxPreviewSeconds));
  return ttl.value_or(control::kPreviewSeconds);
}

Result<control::PreviewRequest> parse_preview(const Json& body) {
  TRY(const auto fields, Fields::of(body, "", {"port", "protocol", "path", "ttl_seconds"}));
  control::PreviewRequest request;
  TRY(const auto port, fields.integer("port", 1, 65'535));
  if (!port) {
    return fail(Code::kInvalidArgument, "field \"port\" is needed: the port to look at");
  }
  request.port = static_cast<std::uint16_t>(*port);
  TRY(const auto protocol, fields.string("protocol"));
  if (protocol && *protocol != "http" && *protocol != "https") {
    return fail(Code::kInvalidArgument, "field \"protocol\" must be http or https");
  }
  request.secure = protocol && *protocol == "https";
  TRY(const auto path, fields.string("path"));
  request.path = path && !path->empty() ? *path : "/";
  const auto in_line = [](char c) { return c > 0x20 && c < 0x7F && c != '\\'; };
  if (!request.path.starts_with('/') || request.path.starts_with("//") ||
      request.path.size() > kMaxPreviewPathBytes || !std::ranges::all_of(request.path, in_line)) {
    return fail(Code::kInvalidArgument, "field \"path\" must be an absolute path");
  }
  TRY(request.ttl_seconds, parse_ttl(fields));
  return request;
}

}  // namespace

Json Published::services_json(std::string_view sandbox_id, Detail detail) const {
  Json list = Json::array();
  const auto found = services.find(sandbox_id);
  if (!found) {
    return list;
  }
  for (const control::Service& service : found->services) {
    const auto blockers = control::publish_blockers(service);
    Json names_of_blockers = Json::array();
    for (const auto& blocker : blockers) {
      names_of_blockers.push(blocker);
    }
    Json view = control::service_json(service);
    if (const Json* runtime = view.find("runtime"); runtime && detail == Detail::kBrief) {
      view.set("runtime", Json::object({{"type", *runtime->find("type")}}));
    }
    view.set("publishable", blockers.empty());
    view.set("publish_blockers", std::move(names_of_blockers));
    if (service.is_public) {
      view.set("public_url", names.origin(sandbox_id, service.port));
    }
    list.push(std::move(view));
  }
  return list;
}

void ServiceRoutes::add_to(RouteTable& table) {
  if (published_ == nullptr) {
    return;
  }
  const auto id_of = [](const http::PathParameters& p) { return parameter(p, "id"); };
  const auto preview_of = [](const http::PathParameters& p) { return parameter(p, "preview_id"); };
  constexpr std::string_view kServices = "/api/v1/sandboxes/{id}/services";
  constexpr std::string_view kPreviews = "/api/v1/sandboxes/{id}/previews";
  constexpr std::string_view kPreview = "/api/v1/sandboxes/{id}/previews/{preview_id}";
  table.add("GET", kServices, Permission::kSandboxRead,
            [this, id_of](NativeExchange& e, const auto& p) { return list(e, id_of(p)); });
  table.add("PUT", kServices, Permission::kSandboxWrite,
            [this, id_of](NativeExchange& e, const auto& p) { return replace(e, id_of(p)); });
  table.add(
      "POST", kPreviews, Permission::kSandboxWrite,
      [this, id_of](NativeExchange& e, const auto& p) { return create_preview(e, id_of(p)); });
  table.add("PUT", kPreview, Permission::kSandboxWrite,
            [this, id_of, preview_of](NativeExchange& e, const auto& p) {
              return renew_preview(e, id_of(p), preview_of(p));
            });
  table.add("DELETE", kPreview, Permission::kSandboxWrite,
            [this, id_of, preview_of](NativeExchange& e, const auto& p) {
              return revoke_preview(e, id_of(p), preview_of(p));
            });
}

Json ServiceRoutes::list_json(const std::string& id) const {
  const auto& names = published_->names;
  return Json::object({{"sandbox_id", id},
                       {"exposure_domain", names.has_own_hosts() ? names.domain : names.server},
                       {"services", published_->services_json(id)}});
}

Task<> ServiceRoutes::list(NativeExchange& exchange, std::string id) {
  CO_TRY_DO(published_->services.get(exchange.principal().team_id, id));
  co_return co_await exchange.respond(data_response(200, list_json(id)));
}

Task<> ServiceRoutes::replace(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"services"}));
  if (!fields.has("services")) {
    co_return fail(Code::kInvalidArgument, "field \"services\" is needed: all of them, as a list");
  }
  CO_TRY(auto services, control::parse_services(fields));
  CO_TRY_DO(
      co_await published_->services.put(exchange.principal().team_id, id, std::move(services)));
  co_return co_await exchange.respond(data_response(200, list_json(id)));
}

Json ServiceRoutes::preview_json(const control::Preview& preview,
                                 std::string_view link_secret) const {
  const std::string origin = published_->names.origin(preview.sandbox_id, preview.port);
  const std::string target = concat(origin, preview.path);
  return Json::object(
      {{"id", preview.id},
       {"sandbox_id", preview.sandbox_id},
       {"port", preview.port},
       {"protocol", preview.secure ? "https" : "http"},
       {"url", link_secret.empty()
                   ? target
                   : concat(origin, "/.sandbox0/preview/bootstrap?token=", link_secret,
                            "&next=", http::percent_encode(preview.path))},
       {"target_url", target},
       {"expires_at", rfc3339(preview.expires_at)},
       {"runtime_generation", preview.generation}});
}

Task<> ServiceRoutes::create_preview(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(auto request, parse_preview(body));
  const auto& principal = exchange.principal();
  CO_TRY(const auto made, co_await published_->previews.create(
                              principal.team_id, id, principal.key_id, std::move(request)));
  Json json = preview_json(made.preview, made.link_secret);
  json.set("access_token", made.token);
  co_return co_await exchange.respond(data_response(201, std::move(json)));
}

Task<> ServiceRoutes::renew_preview(NativeExchange& exchange, std::string id,
                                    std::string preview_id) {
  CO_TRY(const auto body, co_await read_optional_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"ttl_seconds"}));
  CO_TRY(const auto ttl, parse_ttl(fields));
  const auto& principal = exchange.principal();
  CO_TRY(const auto preview,
         co_await published_->previews.renew(principal.team_id, std::move(id), principal.key_id,
                                             std::move(preview_id), ttl));
  co_return co_await exchange.respond(data_response(200, preview_json(preview, {})));
}

Task<> ServiceRoutes::revoke_preview(NativeExchange& exchange, std::string id,
                                     std::string preview_id) {
  const auto& principal = exchange.principal();
  CO_TRY_DO(co_await published_->previews.revoke(principal.team_id, std::move(id), principal.key_id,
                                                 preview_id));
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"message", concat("preview ", preview_id, " deleted")}})));
}

}  // namespace atl::service::native
