#include "service/e2b/volumes/volume_routes.h"

#include <algorithm>

#include "base/strings.h"
#include "service/e2b/lenient_fields.h"
#include "service/e2b/volumes/volume_token.h"

namespace atl::service::e2b {
namespace {

using control::Permission;

// The user that programs in sandboxes run as.
constexpr std::uint32_t kUserId = 1000;
constexpr std::size_t kMaxMounts = 32;

std::unexpected<Error> no_such_volume(std::string_view name) {
  return fail(Code::kNotFound, concat("there is no volume \"", to_valid_utf8(name), "\""),
              "volume_not_found");
}

bool is_clean_path(std::string_view path) {
  if (path.size() < 2 || path.front() != '/' || path.contains('\0')) {
    return false;
  }
  const auto parts = split(path.substr(1), '/');
  return std::ranges::none_of(
      parts, [](std::string_view part) { return part.empty() || part == "." || part == ".."; });
}

}  // namespace

void VolumeRoutes::add_to(E2bRoutes& routes) {
  const auto id_of = [](const http::PathParameters& p) { return parameter(p, "id"); };
  routes.add("POST", "/volumes", Permission::kVolumeCreate,
             [this](E2bExchange& e, const auto&) { return create(e); });
  routes.add("GET", "/volumes", Permission::kVolumeRead,
             [this](E2bExchange& e, const auto&) { return list(e); });
  routes.add("GET", "/volumes/{id}", Permission::kVolumeRead,
             [this, id_of](E2bExchange& e, const auto& p) { return get(e, id_of(p)); });
  routes.add("DELETE", "/volumes/{id}", Permission::kVolumeDelete,
             [this, id_of](E2bExchange& e, const auto& p) { return remove(e, id_of(p)); });
}

// Who may only look gets no token: it opens the contents for writing as well.
Json VolumeRoutes::volume_json(const E2bExchange& exchange, const std::string& volume_id) const {
  const control::Principal& caller = exchange.principal();
  Json json =
      Json::object({{"volumeID", volume_id}, {"name", names_.name_of(caller.team_id, volume_id)}});
  json.set("token", caller.may(Permission::kVolumeWrite)
                        ? make_volume_token(parts_.tokens, caller.team_id, volume_id,
                                            parts_.clock.now() + kVolumeTokenMs)
                        : std::string{});
  if (parts_.names.has_own_hosts()) {
    json.set("domain", concat(parts_.names.domain, parts_.names.port_suffix));
  }
  return json;
}

Task<> VolumeRoutes::create(E2bExchange& exchange) {
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"name"}));
  CO_TRY(auto name, fields->required_string("name"));
  control::VolumeCreate request;
  request.user_id = exchange.principal().key_id;
  request.access_mode = control::AccessMode::kMany;
  request.posix_uid = kUserId;
  request.posix_gid = kUserId;
  CO_TRY(const auto made,
         co_await names_.create(exchange.principal().team_id, std::move(name), std::move(request)));
  co_return co_await exchange.respond_json(201, volume_json(exchange, made.volume.id));
}

Task<> VolumeRoutes::list(E2bExchange& exchange) {
  const std::string team_id = exchange.principal().team_id;
  CO_TRY(const auto volumes, co_await volumes_.list(team_id));
  Json list = Json::array();
  for (const auto& view : volumes) {
    list.push(Json::object(
        {{"volumeID", view.volume.id}, {"name", names_.name_of(team_id, view.volume.id)}}));
  }
  co_return co_await exchange.respond_json(200, list);
}

Task<> VolumeRoutes::get(E2bExchange& exchange, std::string id) {
  const auto found = names_.find(exchange.principal().team_id, id);
  if (!found) {
    co_return no_such_volume(id);
  }
  co_return co_await exchange.respond_json(200, volume_json(exchange, *found));
}

Task<> VolumeRoutes::remove(E2bExchange& exchange, std::string id) {
  const std::string team_id = exchange.principal().team_id;
  const auto found = names_.find(team_id, id);
  if (!found) {
    co_return no_such_volume(id);
  }
  const std::string volume_id = *found;
  CO_TRY_DO(co_await volumes_.remove(team_id, volume_id, false));
  CO_TRY_DO(co_await names_.forget(team_id, volume_id));
  co_return co_await exchange.respond_empty(204);
}

Result<> VolumeRoutes::map_claim(const std::string& team_id, const Json& body,
                                 NewSandbox& made) const {
  const Json* const mounts = body.find("volumeMounts");
  if (mounts == nullptr) {
    return {};
  }
  const Json::Array* const list = mounts->as_array();
  if (list == nullptr || list->size() > kMaxMounts) {
    return fail(Code::kInvalidArgument,
                concat("volumeMounts: must be a list of at most ", kMaxMounts, " mounts"));
  }
  for (const Json& mount : *list) {
    TRY(const auto fields, LenientFields::of(mount, "volumeMounts", {"name", "path"}));
    TRY(const auto name, fields->required_string("name"));
    TRY(const auto path, fields->required_string("path"));
    if (!is_clean_path(path)) {
      return fail(Code::kInvalidArgument, concat("volumeMounts: \"", to_valid_utf8(path),
                                                 "\" must be an absolute path in its short form"));
    }
    const auto id = names_.find(team_id, name);
    if (!id) {
      return no_such_volume(name);
    }
    made.claim.mounts.push_back({.volume_id = *id, .path = path});
    made.terms.mounts.push_back({.name = name, .path = path});
  }
  return {};
}

}  // namespace atl::service::e2b
