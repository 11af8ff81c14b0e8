#include "service/e2b/secrets/secret_routes.h"

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"
#include "service/e2b/lenient_fields.h"
#include "service/native/envelope.h"

namespace atl::service::e2b {
namespace {

using control::CredentialSource;
using control::Permission;

constexpr std::string_view kIdPrefix = "sec_";
constexpr std::size_t kIdCharacters = 24;
constexpr std::size_t kMaxBodyBytes = std::size_t{128} * 1024;
constexpr std::int64_t kMaxPage = 100;
constexpr std::size_t kMaxMetadata = 32;
constexpr std::size_t kMaxMetadataKeyBytes = 128;
constexpr std::size_t kMaxMetadataValueBytes = 1024;
constexpr std::size_t kMaxMetadataBytes = 8192;

// Another one when the secret is destroyed and made again.
std::string id_of(const CredentialSource& source) {
  const std::string digest =
      hex(sha256(concat(source.team_id, "\n", source.name, "\n", source.created_at)));
  return concat(kIdPrefix, digest.substr(0, kIdCharacters));
}

Json secret_json(const CredentialSource& source) {
  Json metadata = Json::object();
  for (const auto& [key, value] : source.labels) {
    metadata.set(key, value);
  }
  return Json::object({{"secretID", id_of(source)},
                       {"name", source.name},
                       {"currentVersion", source.version},
                       {"metadata", std::move(metadata)},
                       {"createdAt", native::rfc3339(source.created_at)},
                       {"updatedAt", native::rfc3339(source.updated_at)}});
}

Result<> check_metadata(const store::StringMap& metadata) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : metadata) {
    bytes += key.size() + value.size();
    if (key.size() > kMaxMetadataKeyBytes || value.size() > kMaxMetadataValueBytes) {
      bytes = kMaxMetadataBytes + 1;
    }
  }
  if (metadata.size() > kMaxMetadata || bytes > kMaxMetadataBytes) {
    return fail(Code::kInvalidArgument,
                concat("metadata: at most ", kMaxMetadata, " entries, keys of ",
                       kMaxMetadataKeyBytes, ", values of ", kMaxMetadataValueBytes, " and ",
                       kMaxMetadataBytes, " bytes together"));
  }
  return {};
}

struct Written {
  std::string name;  // empty: not said
  control::CredentialSpec spec;
};

Result<Written> parse_written(const Json& body) {
  TRY(const auto fields, LenientFields::of(body, "", {"name", "value", "metadata"}));
  Written out;
  TRY(auto name, fields->string("name"));
  out.name = to_lower(name.value_or(""));
  TRY(auto value, fields->required_string("value"));
  out.spec.values.insert_or_assign(std::string{kSecretValue}, secrets::Plaintext{value});
  secrets::wipe(value);
  if (fields->has("metadata")) {
    TRY(out.spec.labels, fields->string_map("metadata"));
    TRY_DO(check_metadata(*out.spec.labels));
  }
  return out;
}

// What came is overwritten as soon as it is read.
Task<Written> read_written(E2bExchange& exchange) {
  CO_TRY(std::string text, co_await http::read_all(exchange.body(), kMaxBodyBytes));
  auto body = Json::parse(text);
  secrets::wipe(text);
  CO_TRY_DO(body);
  auto written = parse_written(*body);
  control::wipe_json(*body);
  co_return written;
}

Result<> check_name(std::string_view name) {
  if (name.starts_with(kIdPrefix) || name.find_first_of("{}") != std::string_view::npos) {
    return fail(Code::kInvalidArgument,
                concat("name: has no braces and does not begin with ", kIdPrefix));
  }
  return control::check_source_name(name);
}

}  // namespace

void SecretRoutes::add_to(E2bRoutes& routes) {
  const auto id_of_path = [](const http::PathParameters& p) { return parameter(p, "id"); };
  routes.add("POST", "/secrets", Permission::kCredentialSourceWrite,
             [this](E2bExchange& e, const auto&) { return create(e); });
  routes.add("GET", "/secrets", Permission::kCredentialSourceRead,
             [this](E2bExchange& e, const auto&) { return list(e); });
  routes.add("GET", "/secrets/{id}", Permission::kCredentialSourceRead,
             [this, id_of_path](E2bExchange& e, const auto& p) { return get(e, id_of_path(p)); });
  routes.add(
      "POST", "/secrets/{id}", Permission::kCredentialSourceWrite,
      [this, id_of_path](E2bExchange& e, const auto& p) { return update(e, id_of_path(p)); });
  routes.add(
      "DELETE", "/secrets/{id}", Permission::kCredentialSourceDelete,
      [this, id_of_path](E2bExchange& e, const auto& p) { return remove(e, id_of_path(p)); });
}

bool SecretRoutes::is_secret(const CredentialSource& source) const {
  if (source.kind != control::SourceKind::kStaticHeaders) {
    return false;
  }
  const auto opened = sources_.open(source.team_id, source.name);
  // One that cannot be opened any more can still be seen, written and removed.
  return !opened || opened->values.contains(kSecretValue);
}

Result<CredentialSource> SecretRoutes::find(const E2bExchange& exchange,
                                            std::string_view id) const {
  const std::string& team_id = exchange.principal().team_id;
  if (auto named = sources_.get(team_id, to_lower(id)); named && is_secret(*named)) {
    return named;
  }
  for (const CredentialSource& source : sources_.list(team_id)) {
    if (id_of(source) == id && is_secret(source)) {
      return source;
    }
  }
  return fail(Code::kNotFound, concat("there is no secret \"", to_valid_utf8(id), "\""),
              "secret_not_found");
}

Task<> SecretRoutes::create(E2bExchange& exchange) {
  CO_TRY(auto written, co_await read_written(exchange));
  CO_TRY_DO(check_name(written.name));
  CO_TRY(const auto made,
         co_await sources_.create(exchange.principal().team_id, std::move(written.name),
                                  std::move(written.spec)));
  co_return co_await exchange.respond_json(201, secret_json(made));
}

Task<> SecretRoutes::list(E2bExchange& exchange) {
  const std::string& query = exchange.request().query;
  CO_TRY(const auto limit, query_integer(query, "limit", 1, kMaxPage));
  const auto token = http::query_value(query, "nextToken");
  const auto after = token && !token->empty() ? base64_decode(*token) : std::nullopt;
  if (token && !token->empty() && !after) {
    co_return fail(Code::kInvalidArgument, "nextToken is none of ours");
  }
  Json page = Json::array();
  std::string last;
  http::Headers headers;
  for (const CredentialSource& source : sources_.list(exchange.principal().team_id)) {
    if ((after && source.name <= *after) || !is_secret(source)) {
      continue;
    }
    if (page.as_array()->size() == static_cast<std::size_t>(limit.value_or(kMaxPage))) {
      headers.add("X-Next-Token", base64_encode(last));
      break;
    }
    page.push(secret_json(source));
    last = source.name;
  }
  co_return co_await exchange.respond_json(200, page, std::move(headers));
}

Task<> SecretRoutes::get(E2bExchange& exchange, std::string id) {
  CO_TRY(const auto source, find(exchange, id));
  co_return co_await exchange.respond_json(200, secret_json(source));
}

Task<> SecretRoutes::update(E2bExchange& exchange, std::string id) {
  CO_TRY(auto written, co_await read_written(exchange));
  CO_TRY(const auto source, find(exchange, id));
  CO_TRY(const auto rotated,
         co_await sources_.rotate(source.team_id, source.name, std::move(written.spec)));
  co_return co_await exchange.respond_json(200, secret_json(rotated));
}

Task<> SecretRoutes::remove(E2bExchange& exchange, std::string id) {
  CO_TRY(const auto source, find(exchange, id));
  CO_TRY_DO(co_await sources_.remove(source.team_id, source.name));
  co_return co_await exchange.respond_empty(204);
}

}  // namespace atl::service::e2b
