#include "service/native/volume_routes.h"

#include "base/strings.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/volume_json.h"

namespace atl::service::native {

using control::Permission;

void VolumeRoutes::add_to(RouteTable& table) {
  if (volumes_ == nullptr) {
    return;
  }
  constexpr std::string_view kAll = "/api/v1/sandboxvolumes";
  constexpr std::string_view kOne = "/api/v1/sandboxvolumes/{id}";
  constexpr std::string_view kSnapshots = "/api/v1/sandboxvolumes/{id}/snapshots";
  constexpr std::string_view kSnapshot = "/api/v1/sandboxvolumes/{id}/snapshots/{snapshot_id}";
  using One = Task<> (VolumeRoutes::*)(NativeExchange&, std::string);
  using OfTwo = Task<> (VolumeRoutes::*)(NativeExchange&, std::string, std::string);
  const auto one = [this](One method) {
    return [this, method](NativeExchange& e, const http::PathParameters& p) {
      return (this->*method)(e, parameter(p, "id"));
    };
  };
  const auto two = [this](OfTwo method) {
    return [this, method](NativeExchange& e, const http::PathParameters& p) {
      return (this->*method)(e, parameter(p, "id"), parameter(p, "snapshot_id"));
    };
  };
  table.add("POST", kAll, Permission::kVolumeCreate,
            [this](NativeExchange& e, const auto&) { return create(e); });
  table.add("GET", kAll, Permission::kVolumeRead,
            [this](NativeExchange& e, const auto&) { return list(e); });
  table.add("GET", kOne, Permission::kVolumeRead, one(&VolumeRoutes::get));
  table.add("DELETE", kOne, Permission::kVolumeDelete, one(&VolumeRoutes::remove));
  table.add("POST", concat(kOne, "/fork"), Permission::kVolumeCreate, one(&VolumeRoutes::fork));
  table.add("POST", kSnapshots, Permission::kVolumeWrite, one(&VolumeRoutes::take));
  table.add("GET", kSnapshots, Permission::kVolumeRead, one(&VolumeRoutes::list_snapshots));
  table.add("GET", kSnapshot, Permission::kVolumeRead, two(&VolumeRoutes::get_snapshot));
  table.add("DELETE", kSnapshot, Permission::kVolumeWrite, two(&VolumeRoutes::remove_snapshot));
  table.add("POST", concat(kSnapshot, "/restore"), Permission::kVolumeWrite,
            two(&VolumeRoutes::restore));
}

Task<> VolumeRoutes::create(NativeExchange& exchange) {
  CO_TRY(const Json body, co_await read_optional_json(exchange.body()));
  CO_TRY(auto request, parse_volume_create(body));
  request.user_id = exchange.principal().key_id;
  CO_TRY(const auto volume,
         co_await volumes_->create(exchange.principal().team_id, std::move(request)));
  co_return co_await exchange.respond(data_response(201, volume_json(volume)));
}

Task<> VolumeRoutes::list(NativeExchange& exchange) {
  CO_TRY(const auto volumes, co_await volumes_->list(exchange.principal().team_id));
  Json list = Json::array();
  for (const auto& volume : volumes) {
    list.push(volume_json(volume));
  }
  co_return co_await exchange.respond(data_response(200, std::move(list)));
}

Task<> VolumeRoutes::get(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto volume, co_await volumes_->get(exchange.principal().team_id, std::move(id)));
  co_return co_await exchange.respond(data_response(200, volume_json(volume)));
}

Task<> VolumeRoutes::remove(NativeExchange& exchange, std::string id) {
  CO_TRY(const bool force, query_boolean(exchange.request().query, "force"));
  CO_TRY_DO(co_await volumes_->remove(exchange.principal().team_id, std::move(id), force));
  co_return co_await exchange.respond(data_response(200, Json::object({{"deleted", true}})));
}

Task<> VolumeRoutes::fork(NativeExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_optional_json(exchange.body()));
  CO_TRY(auto request, parse_volume_fork(body));
  request.user_id = exchange.principal().key_id;
  CO_TRY(const auto volume,
         co_await volumes_->fork(exchange.principal().team_id, std::move(id), std::move(request)));
  co_return co_await exchange.respond(data_response(201, volume_json(volume)));
}

Task<> VolumeRoutes::take(NativeExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"name", "description", "expires_at"}));
  control::VolumeSnapshotCreate request;
  CO_TRY(request.name, fields.required_string("name"));
  CO_TRY(const auto description, fields.string("description"));
  CO_TRY(request.expires_at, fields.time("expires_at"));
  request.description = description.value_or("");
  CO_TRY(const auto snapshot, co_await volumes_->snapshot(exchange.principal().team_id,
                                                          std::move(id), std::move(request)));
  co_return co_await exchange.respond(data_response(201, volume_snapshot_json(snapshot)));
}

Task<> VolumeRoutes::list_snapshots(NativeExchange& exchange, std::string id) {
  CO_TRY(const auto snapshots, volumes_->list_snapshots(exchange.principal().team_id, id));
  Json list = Json::array();
  for (const auto& snapshot : snapshots) {
    list.push(volume_snapshot_json(snapshot));
  }
  co_return co_await exchange.respond(data_response(200, std::move(list)));
}

Task<> VolumeRoutes::get_snapshot(NativeExchange& exchange, std::string id,
                                  std::string snapshot_id) {
  CO_TRY(const auto snapshot,
         volumes_->get_snapshot(exchange.principal().team_id, id, snapshot_id));
  co_return co_await exchange.respond(data_response(200, volume_snapshot_json(snapshot)));
}

Task<> VolumeRoutes::remove_snapshot(NativeExchange& exchange, std::string id,
                                     std::string snapshot_id) {
  CO_TRY_DO(co_await volumes_->remove_snapshot(exchange.principal().team_id, std::move(id),
                                               std::move(snapshot_id)));
  co_return co_await exchange.respond(data_response(200, Json::object({{"deleted", true}})));
}

Task<> VolumeRoutes::restore(NativeExchange& exchange, std::string id, std::string snapshot_id) {
  CO_TRY(const Json body, co_await read_optional_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"force"}));
  CO_TRY(const auto force, fields.boolean("force"));
  CO_TRY_DO(co_await volumes_->restore(exchange.principal().team_id, std::move(id),
                                       std::move(snapshot_id), force.value_or(false)));
  co_return co_await exchange.respond(data_response(200, Json::object({{"status", "restored"}})));
}

}  // namespace atl::service::native
