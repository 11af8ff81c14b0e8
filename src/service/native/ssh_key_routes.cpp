#include "service/native/ssh_key_routes.h"

#include "base/strings.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {
namespace {

Json key_json(const control::SshKey& key) {
  Json json = Json::object({{"id", key.id},
                            {"name", key.name},
                            {"public_key", ssh::format_public_key(key.key)},
                            {"key_type", key.key.type},
                            {"fingerprint_sha256", ssh::fingerprint_sha256(key.key.blob)},
                            {"created_at", rfc3339(key.created_at)},
                            {"updated_at", rfc3339(key.created_at)}});
  if (!key.key.comment.empty()) {
    json.set("comment", key.key.comment);
  }
  return json;
}

}  // namespace

using control::Permission;

void SshKeyRoutes::add_to(RouteTable& table) {
  if (keys_ == nullptr) {
    return;
  }
  constexpr std::string_view kAll = "/users/me/ssh-keys";
  table.add("GET", kAll, Permission::kSandboxRead,
            [this](NativeExchange& e, const auto&) { return list(e); });
  table.add("POST", kAll, Permission::kSandboxWrite,
            [this](NativeExchange& e, const auto&) { return add(e); });
  table.add("DELETE", concat(kAll, "/{id}"), Permission::kSandboxWrite,
            [this](NativeExchange& e, const http::PathParameters& p) {
              return remove(e, parameter(p, "id"));
            });
}

Task<> SshKeyRoutes::list(NativeExchange& exchange) {
  Json list = Json::array();
  for (const auto& key : keys_->list(exchange.principal().team_id)) {
    list.push(key_json(key));
  }
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"ssh_keys", std::move(list)}})));
}

Task<> SshKeyRoutes::add(NativeExchange& exchange) {
  CO_TRY(const Json body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"name", "public_key"}));
  CO_TRY(std::string name, fields.required_string("name"));
  CO_TRY(std::string line, fields.required_string("public_key"));
  CO_TRY(const auto key,
         co_await keys_->add(exchange.principal().team_id, std::move(name), std::move(line)));
  co_return co_await exchange.respond(data_response(201, key_json(key)));
}

Task<> SshKeyRoutes::remove(NativeExchange& exchange, std::string id) {
  CO_TRY_DO(co_await keys_->remove(exchange.principal().team_id, std::move(id)));
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"message", "SSH key removed"}})));
}

}  // namespace atl::service::native
