#include "control/binding_document.h"

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"
#include "control/credential_spec.h"
#include "control/value_template.h"
#include "egress/placeholders.h"

namespace atl::control {
namespace {

using egress::Binding;
using egress::ProjectionKind;
using Names = std::initializer_list<std::string_view>;
using Extra = BindingDocument::Extra;

constexpr std::string_view kUsualPrefix = "atl_";
constexpr std::size_t kRandomCharacters = 22;  // of 62: 131 bits
constexpr std::size_t kMaxPrefixBytes = 32;

struct KindName {
  std::string_view name;
  ProjectionKind kind;
  std::string_view part;  // of the projection
};
constexpr KindName kKinds[] = {
    {"http_headers", ProjectionKind::kHttpHeaders, "httpHeaders"},
    {"placeholder_substitution", ProjectionKind::kPlaceholders, "placeholderSubstitution"},
    {"tls_client_certificate", ProjectionKind::kTlsClientCertificate, "tlsClientCertificate"},
    {"username_password", ProjectionKind::kUsernamePassword, "usernamePassword"},
    {"ssh_proxy", ProjectionKind::kSshProxy, "sshProxy"},
};

std::unexpected<Error> refuse(const Fields& fields, std::string_view name, std::string_view what) {
  return fail(Code::kInvalidArgument, concat("field \"", fields.path(name), "\": ", what));
}

bool is_word(std::string_view text, std::string_view also) {
  return std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           also.contains(c);
  });
}

bool is_header_name(std::string_view text) {
  return !text.empty() && text.size() <= 256 && is_word(text, "!#$%&'*+-.^_`|~");
}

// What survives headers, queries, forms and JSON as it is written.
bool is_placeholder(std::string_view text) {
  return text.size() >= egress::kLeastPlaceholderBytes &&
         text.size() <= egress::kMostPlaceholderBytes && std::ranges::all_of(text, [](char c) {
           return c > ' ' && c < 127 && !std::string_view{"\"\\%&'+"}.contains(c);
         });
}

bool is_variable(std::string_view text) {
  return !text.empty() && text.size() <= kMaxRefBytes && is_word(text, "_") &&
         !(text[0] >= '0' && text[0] <= '9');
}

Result<std::string> read_template(const Fields& fields) {
  TRY(auto text, fields.required_string("valueTemplate"));
  if (text.size() > kMaxTemplateBytes) {
    return refuse(fields, "valueTemplate", concat("has more than ", kMaxTemplateBytes, " bytes"));
  }
  if (auto parsed = ValueTemplate::parse(text); !parsed) {
    return refuse(fields, "valueTemplate", parsed.error().message);
  }
  return text;
}

Result<std::vector<Fields>> read_some(const Fields& fields, std::string_view name, Names allowed) {
  TRY(auto objects, fields.objects(name, allowed));
  if (objects.empty() || objects.size() > kMaxProjected) {
    return refuse(fields, name, concat("needs 1 to ", kMaxProjected, " entries"));
  }
  return objects;
}

Result<> read_headers(const Fields& part, Binding& binding) {
  TRY(const auto objects, read_some(part, "headers", {"name", "valueTemplate"}));
  for (const Fields& object : objects) {
    egress::ProjectedHeader header;
    TRY(header.name, object.required_string("name"));
    TRY(header.value_template, read_template(object));
    // Framing and routing are the proxy's.
    constexpr std::string_view kOurs[] = {"host",    "content-length", "transfer-encoding",
                                          "trailer", "connection",     "upgrade",
                                          "te",      "keep-alive",     "proxy-connection"};
    if (!is_header_name(header.name) ||
        std::ranges::find(kOurs, to_lower(header.name)) != std::end(kOurs)) {
      return refuse(object, "name", "is no header that a credential can be in");
    }
    binding.projection.headers.push_back(std::move(header));
  }
  return {};
}

Result<> read_locations(const Fields& object, egress::ProjectedPlaceholder& out) {
  TRY(const auto locations, object.strings("locations"));
  for (const auto& location : locations) {
    bool* const where = location == "header"  ? &out.in_header
                        : location == "query" ? &out.in_query
                        : location == "body"  ? &out.in_body
                                              : nullptr;
    if (where == nullptr) {
      return refuse(object, "locations", "knows header, query and body");
    }
    *where = true;
  }
  return locations.empty() ? Result<>{refuse(object, "locations", "needs header, query or body")}
                           : Result<>{};
}

Result<> read_placeholders(const Fields& part, BindingDocument& document) {
  TRY(const auto objects,
      read_some(part, "replacements",
                {"placeholder", "valueTemplate", "locations", "env", "prefix"}));
  for (const Fields& object : objects) {
    egress::ProjectedPlaceholder placeholder;
    Extra extra;
    TRY(auto text, object.string("placeholder"));
    placeholder.placeholder = std::move(text).value_or("");
    TRY(placeholder.value_template, read_template(object));
    TRY_DO(read_locations(object, placeholder));
    TRY(auto env, object.string("env"));
    extra.env = std::move(env).value_or("");
    TRY(auto prefix, object.string("prefix"));
    extra.prefix = std::move(prefix).value_or("");
    if (object.has("placeholder") && !is_placeholder(placeholder.placeholder)) {
      return refuse(
          object, "placeholder",
          concat("needs ", egress::kLeastPlaceholderBytes, " to ", egress::kMostPlaceholderBytes,
                 " visible ASCII characters, none of \" \\ % & ' +; or leave it out"));
    }
    if (object.has("env") && !is_variable(extra.env)) {
      return refuse(object, "env", "is no name of a variable");
    }
    if (extra.prefix.size() > kMaxPrefixBytes || !is_word(extra.prefix, "_-")) {
      return refuse(object, "prefix",
                    concat("is at most ", kMaxPrefixBytes, " of A-Z, a-z, 0-9, _ and -"));
    }
    document.binding.projection.placeholders.push_back(std::move(placeholder));
    document.extras.push_back(std::move(extra));
  }
  return {};
}

Result<> read_ssh(const Fields& part, Binding& binding) {
  egress::Projection& projection = binding.projection;
  TRY(projection.sandbox_public_keys, part.strings("sandboxPublicKeys"));
  TRY(auto username, part.string("upstreamUsername"));
  projection.upstream_username = std::move(username).value_or("");
  TRY(projection.known_hosts, part.strings("knownHosts"));
  constexpr std::size_t kMaxLineBytes = 16384;
  for (const auto& [name, lines] : {std::pair{"sandboxPublicKeys", projection.sandbox_public_keys},
                                    std::pair{"knownHosts", projection.known_hosts}}) {
    const bool bad = lines.size() > kMaxProjected || std::ranges::any_of(lines, [](const auto& l) {
                       return l.size() > kMaxLineBytes || l.contains('\n') || l.contains('\0');
                     });
    if (bad) {
      return refuse(part, name, concat("has at most ", kMaxProjected, " single lines"));
    }
  }
  if (projection.known_hosts.empty()) {
    return refuse(part, "knownHosts",
                  "needs the keys of the server; without them anybody could be it");
  }
  return {};
}

Result<> read_part(const Fields& projection, const KindName& kind, BindingDocument& document) {
  for (const KindName& other : kKinds) {
    if (other.kind != kind.kind && projection.has(other.part)) {
      return refuse(projection, other.part, concat("does not belong to ", kind.name));
    }
  }
  switch (kind.kind) {
    case ProjectionKind::kHttpHeaders: {
      TRY(const auto part, projection.object(kind.part, {"headers"}));
      return read_headers(part, document.binding);
    }
    case ProjectionKind::kPlaceholders: {
      TRY(const auto part, projection.object(kind.part, {"replacements"}));
      return read_placeholders(part, document);
    }
    case ProjectionKind::kSshProxy: {
      TRY(const auto part,
          projection.object(kind.part, {"sandboxPublicKeys", "upstreamUsername", "knownHosts"}));
      return read_ssh(part, document.binding);
    }
    case ProjectionKind::kTlsClientCertificate:
    case ProjectionKind::kUsernamePassword:
      TRY_DO(projection.object(kind.part, {}));
      break;
  }
  return {};
}

Result<> read_projection(const Fields& fields, BindingDocument& document) {
  if (!fields.has("projection")) {
    return refuse(fields, "projection", "is missing");
  }
  TRY(const auto projection,
      fields.object("projection",
                    {"type", "httpHeaders", "placeholderSubstitution", "tlsClientCertificate",
                     "usernamePassword", "sshProxy", "forwardUnmatched", "redactResponses"}));
  TRY(const auto type, projection.required_string("type"));
  const auto kind = std::ranges::find(kKinds, type, &KindName::name);
  if (kind == std::end(kKinds)) {
    return refuse(projection, "type",
                  "must be one of http_headers, placeholder_substitution, "
                  "tls_client_certificate, username_password, ssh_proxy");
  }
  egress::Projection& out = document.binding.projection;
  out.kind = kind->kind;
  TRY(const auto forward, projection.boolean("forwardUnmatched"));
  TRY(const auto redact, projection.boolean("redactResponses"));
  out.forward_unmatched = forward.value_or(false);
  out.redact_responses = redact.value_or(false);
  return read_part(projection, *kind, document);
}

// "90s", "5m", "1h30m".
std::optional<std::int64_t> parse_duration_seconds(std::string_view text) {
  std::int64_t total = 0;
  while (!text.empty()) {
    const auto unit = text.find_first_not_of("0123456789");
    const auto number =
        unit == std::string_view::npos || unit > 9 ? std::nullopt : parse_i64(text.substr(0, unit));
    if (!number) {
      return std::nullopt;
    }
    const std::int64_t factor = text[unit] == 's'   ? 1
                                : text[unit] == 'm' ? 60
                                : text[unit] == 'h' ? 3600
                                                    : -1;
    if (factor < 0 || text.substr(unit).starts_with("ms")) {
      return std::nullopt;
    }
    total += *number * factor;
    text.remove_prefix(unit + 1);
  }
  return total;
}

// Where the values come from: a source, or the binding itself.
Result<> read_values(const Fields& fields, Binding& binding) {
  TRY(auto sealed, fields.string("sealed"));
  binding.sealed = std::move(sealed).value_or("");
  TRY(binding.late_sources, fields.strings("lateSources"));
  if (binding.late_sources.size() > kMaxLateSources) {
    return refuse(fields, "lateSources", concat("has more than ", kMaxLateSources, " names"));
  }
  for (const auto& name : binding.late_sources) {
    TRY_DO(check_source_name(name));
  }
  if (!binding.has_own_values()) {
    TRY(binding.source_ref, fields.required_string("sourceRef"));
    return {};
  }
  TRY(const auto source, fields.string("sourceRef"));
  return source && !source->empty()
             ? Result<>{refuse(fields, "sourceRef", "cannot be beside sealed and lateSources")}
             : Result<>{};
}

Result<BindingDocument> read_binding(const Fields& fields) {
  BindingDocument document;
  Binding& binding = document.binding;
  TRY(binding.ref, fields.required_string("ref"));
  TRY_DO(read_values(fields, binding));
  if (binding.ref.empty() || binding.ref.size() > kMaxRefBytes) {
    return refuse(fields, "ref", concat("needs 1 to ", kMaxRefBytes, " bytes"));
  }
  TRY_DO(read_projection(fields, document));
  TRY(const auto cache, fields.object("cachePolicy", {"ttl"}));
  TRY(const auto ttl, cache.string("ttl"));
  if (ttl) {
    const auto seconds = ttl->empty() ? std::nullopt : parse_duration_seconds(*ttl);
    if (!seconds || *seconds > kMaxCacheSeconds) {
      return refuse(cache, "ttl", "must be a duration up to 24h, like 30s, 5m or 1h30m");
    }
    binding.cache_seconds = *seconds;
  }
  return document;
}

// Otherwise which of them is meant would depend on who reads.
Result<> check_placeholders(const Fields& fields, const std::vector<BindingDocument>& bindings) {
  std::vector<std::string_view> all;
  std::vector<std::string_view> variables;
  for (const auto& document : bindings) {
    for (const auto& placeholder : document.binding.projection.placeholders) {
      if (!placeholder.placeholder.empty()) {
        all.push_back(placeholder.placeholder);
      }
    }
    for (const auto& extra : document.extras) {
      if (!extra.env.empty()) {
        variables.push_back(extra.env);
      }
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) {
      if (i != j && all[i].contains(all[j])) {
        return refuse(fields, "credentialBindings", "one placeholder contains another");
      }
    }
  }
  std::ranges::sort(variables);
  return std::ranges::adjacent_find(variables) == variables.end()
             ? Result<>{}
             : Result<>{refuse(fields, "credentialBindings", "two have the same env")};
}

Json write_placeholders(const BindingDocument& document) {
  Json::Array values;
  const auto& placeholders = document.binding.projection.placeholders;
  for (std::size_t i = 0; i < placeholders.size(); ++i) {
    const auto& from = placeholders[i];
    Json value = Json::object();
    if (!from.placeholder.empty()) {
      value.set("placeholder", from.placeholder);
    }
    value.set("valueTemplate", from.value_template);
    Json locations = Json::array();
    for (const auto& [name, set] :
         {std::pair{"header", from.in_header}, {"query", from.in_query}, {"body", from.in_body}}) {
      if (set) {
        locations.push(name);
      }
    }
    value.set("locations", std::move(locations));
    for (const auto& [name, text] :
         {std::pair{"env", document.extras[i].env}, {"prefix", document.extras[i].prefix}}) {
      if (!text.empty()) {
        value.set(name, text);
      }
    }
    values.push_back(std::move(value));
  }
  return Json::object({{"replacements", std::move(values)}});
}

Json strings_json(const std::vector<std::string>& values) {
  return Json{Json::Array(values.begin(), values.end())};
}

Json write_part(const BindingDocument& document) {
  const egress::Projection& projection = document.binding.projection;
  switch (projection.kind) {
    case ProjectionKind::kHttpHeaders: {
      Json headers = Json::array();
      for (const auto& header : projection.headers) {
        headers.push(
            Json::object({{"name", header.name}, {"valueTemplate", header.value_template}}));
      }
      return Json::object({{"headers", std::move(headers)}});
    }
    case ProjectionKind::kPlaceholders:
      return write_placeholders(document);
    case ProjectionKind::kSshProxy: {
      Json part = Json::object();
      if (!projection.sandbox_public_keys.empty()) {
        part.set("sandboxPublicKeys", strings_json(projection.sandbox_public_keys));
      }
      if (!projection.upstream_username.empty()) {
        part.set("upstreamUsername", projection.upstream_username);
      }
      part.set("knownHosts", strings_json(projection.known_hosts));
      return part;
    }
    case ProjectionKind::kTlsClientCertificate:
    case ProjectionKind::kUsernamePassword:
      break;
  }
  return Json::object();
}

}  // namespace

std::string_view projection_name(ProjectionKind kind) {
  return std::ranges::find(kKinds, kind, &KindName::kind)->name;
}

Result<std::vector<BindingDocument>> read_bindings(const Fields& fields) {
  TRY(const auto objects,
      fields.objects("credentialBindings",
                     {"ref", "sourceRef", "sealed", "lateSources", "projection", "cachePolicy"}));
  if (objects.size() > kMaxBindings) {
    return refuse(fields, "credentialBindings", concat("has more than ", kMaxBindings, " entries"));
  }
  std::vector<BindingDocument> bindings;
  for (const Fields& object : objects) {
    TRY(auto binding, read_binding(object));
    for (const auto& other : bindings) {
      if (other.binding.ref == binding.binding.ref) {
        return refuse(object, "ref", "two bindings have the same");
      }
    }
    bindings.push_back(std::move(binding));
  }
  TRY_DO(check_placeholders(fields, bindings));
  return bindings;
}

Json write_bindings(const std::vector<BindingDocument>& bindings) {
  Json list = Json::array();
  for (const auto& document : bindings) {
    const Binding& binding = document.binding;
    const auto kind = std::ranges::find(kKinds, binding.projection.kind, &KindName::kind);
    Json projection =
        Json::object({{"type", kind->name}, {std::string{kind->part}, write_part(document)}});
    if (binding.projection.forward_unmatched) {
      projection.set("forwardUnmatched", true);
    }
    if (binding.projection.redact_responses) {
      projection.set("redactResponses", true);
    }
    Json json = Json::object({{"ref", binding.ref}});
    if (!binding.has_own_values()) {
      json.set("sourceRef", binding.source_ref);
    }
    if (!binding.sealed.empty()) {
      json.set("sealed", binding.sealed);
    }
    if (!binding.late_sources.empty()) {
      json.set("lateSources", strings_json(binding.late_sources));
    }
    json.set("projection", std::move(projection));
    json.set("cachePolicy", Json::object({{"ttl", concat(binding.cache_seconds, "s")}}));
    list.push(std::move(json));
  }
  return list;
}

std::string make_placeholder(std::string_view prefix, std::size_t wanted_bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  const std::size_t size =
      std::clamp(wanted_bytes, prefix.size() + kRandomCharacters, egress::kMostPlaceholderBytes);
  std::string out{prefix};
  while (out.size() < size) {
    for (const char byte : random_bytes(64)) {
      const auto number = static_cast<unsigned char>(byte);
      if (number < kAlphabet.size() * 4 && out.size() < size) {  // all equally likely
        out += kAlphabet[number % kAlphabet.size()];
      }
    }
  }
  return out;
}

void complete_placeholders(std::vector<BindingDocument>& bindings, const LengthOf& length_of) {
  for (auto& document : bindings) {
    auto& placeholders = document.binding.projection.placeholders;
    for (std::size_t i = 0; i < placeholders.size(); ++i) {
      if (placeholders[i].placeholder.empty()) {
        const auto length = length_of(document.binding, placeholders[i].value_template);
        const std::string& prefix = document.extras[i].prefix;
        placeholders[i].placeholder =
            make_placeholder(prefix.empty() ? kUsualPrefix : prefix, length.value_or(0));
      }
    }
  }
}

store::StringMap placeholder_environment(const std::vector<BindingDocument>& bindings) {
  store::StringMap env;
  for (const auto& document : bindings) {
    for (std::size_t i = 0; i < document.extras.size(); ++i) {
      if (!document.extras[i].env.empty()) {
        env[document.extras[i].env] = document.binding.projection.placeholders[i].placeholder;
      }
    }
  }
  return env;
}

}  // namespace atl::control
