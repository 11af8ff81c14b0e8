#include "service/native/credential_routes.h"

#include "base/strings.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {
namespace {

using control::Permission;

Json source_json(const control::CredentialSource& source) {
  return Json::object({{"name", source.name},
                       {"resolverKind", control::source_kind_name(source.kind)},
                       {"currentVersion", source.version},
                       {"status", source.readable ? "active" : "unreadable"},
                       {"createdAt", rfc3339(source.created_at)},
                       {"updatedAt", rfc3339(source.updated_at)}});
}

struct ParsedSource {
  std::string name;  // empty: not said
  control::CredentialSpec spec;
};

Result<ParsedSource> parse_source(const Json& body) {
  TRY(const auto fields, Fields::of(body, "", {"name", "resolverKind", "spec"}));
  ParsedSource parsed;
  TRY(auto name, fields.string("name"));
  parsed.name = std::move(name).value_or("");
  TRY(const auto kind_name, fields.required_string("resolverKind"));
  TRY(const auto kind, control::source_kind_of(kind_name));
  const Json* const spec = body.find("spec");
  if (spec == nullptr) {
    return fail(Code::kInvalidArgument, "field \"spec\" is missing");
  }
  TRY(parsed.spec, control::read_credential_spec(*spec, kind));
  return parsed;
}

// What came is overwritten as soon as it is read.
Task<ParsedSource> read_source(NativeExchange& exchange) {
  CO_TRY(std::string text, co_await http::read_all(exchange.body(), kMaxJsonBodyBytes));
  auto body = Json::parse(text);
  secrets::wipe(text);
  CO_TRY_DO(body);
  auto parsed = parse_source(*body);
  control::wipe_json(*body);
  co_return parsed;
}

}  // namespace

void CredentialRoutes::add_to(RouteTable& table) {
  if (sources_ == nullptr) {
    return;
  }
  constexpr std::string_view kAll = "/api/v1/credential-sources";
  constexpr std::string_view kOne = "/api/v1/credential-sources/{name}";
  const auto name_of = [](const http::PathParameters& p) { return parameter(p, "name"); };
  table.add("POST", kAll, Permission::kCredentialSourceWrite,
            [this](NativeExchange& e, const auto&) { return create(e); });
  table.add("GET", kAll, Permission::kCredentialSourceRead,
            [this](NativeExchange& e, const auto&) { return list(e); });
  table.add("GET", kOne, Permission::kCredentialSourceRead,
            [this, name_of](NativeExchange& e, const auto& p) { return get(e, name_of(p)); });
  table.add("PUT", kOne, Permission::kCredentialSourceWrite,
            [this, name_of](NativeExchange& e, const auto& p) { return rotate(e, name_of(p)); });
  table.add("DELETE", kOne, Permission::kCredentialSourceDelete,
            [this, name_of](NativeExchange& e, const auto& p) { return remove(e, name_of(p)); });
}

Task<> CredentialRoutes::create(NativeExchange& exchange) {
  CO_TRY(auto parsed, co_await read_source(exchange));
  CO_TRY(const auto source,
         co_await sources_->create(exchange.principal().team_id, std::move(parsed.name),
                                   std::move(parsed.spec)));
  co_return co_await exchange.respond(data_response(201, source_json(source)));
}

Task<> CredentialRoutes::list(NativeExchange& exchange) {
  Json list = Json::array();
  for (const auto& source : sources_->list(exchange.principal().team_id)) {
    list.push(source_json(source));
  }
  co_return co_await exchange.respond(data_response(200, std::move(list)));
}

Task<> CredentialRoutes::get(NativeExchange& exchange, std::string name) {
  CO_TRY(const auto source, sources_->get(exchange.principal().team_id, name));
  co_return co_await exchange.respond(data_response(200, source_json(source)));
}

Task<> CredentialRoutes::rotate(NativeExchange& exchange, std::string name) {
  CO_TRY(auto parsed, co_await read_source(exchange));
  if (!parsed.name.empty() && parsed.name != name) {
    co_return fail(Code::kInvalidArgument, "field \"name\": a source cannot be renamed");
  }
  CO_TRY(const auto source, co_await sources_->rotate(exchange.principal().team_id, std::move(name),
                                                      std::move(parsed.spec)));
  co_return co_await exchange.respond(data_response(200, source_json(source)));
}

Task<> CredentialRoutes::remove(NativeExchange& exchange, std::string name) {
  CO_TRY_DO(co_await sources_->remove(exchange.principal().team_id, std::move(name)));
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"message", "credential source deleted"}})));
}

}  // namespace atl::service::native
