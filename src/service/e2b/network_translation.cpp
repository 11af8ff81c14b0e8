#include "service/e2b/network_translation.h"

#include <algorithm>

#include "base/json_fields.h"
#include "base/strings.h"
#include "control/credential_spec.h"
#include "egress/policy_json.h"

namespace atl::service::e2b {
namespace {

using control::NetworkRequest;
using control::SecretValues;

constexpr std::string_view kAllowedAddresses = "e2b-allow-addresses";
constexpr std::string_view kAllowedDomains = "e2b-allow-domains";
constexpr std::string_view kDenied = "e2b-deny";
constexpr std::string_view kTransform = "e2b-transform-";
constexpr std::string_view kProxyLogin = "e2b-egress-proxy";
constexpr std::string_view kSecretOpens = "${e2b.secrets.";
constexpr std::string_view kIdentityOpens = "${e2b.identity.";
// How the value of a secret is called in its source (service/e2b/secrets).
constexpr std::string_view kSecretKey = "_value";
constexpr std::string_view kHidden = "[hidden]";
constexpr std::uint16_t kEnvdPort = 49983;

std::unexpected<Error> refuse(std::string_view field, std::string_view what) {
  return fail(Code::kInvalidArgument, concat("network.", field, ": ", what));
}

bool is_everything(std::string_view text) {
  return text == "0.0.0.0/0" || text == "::/0";
}

// E2B's "*.example.com" does not mean example.com itself, ours would.
std::optional<egress::DomainPattern> parse_domain(std::string_view text) {
  if (text.starts_with('.') || text == "*") {
    return std::nullopt;
  }
  return egress::DomainPattern::parse(text.starts_with("*.") ? text.substr(1) : text);
}

// --- allowOut, denyOut -----------------------------------------------------------------------

struct Destinations {
  std::vector<egress::Network> networks;
  std::vector<egress::DomainPattern> domains;
  bool everything = false;
};

Result<Destinations> read_destinations(const Fields& network, std::string_view name,
                                       bool domains_too) {
  TRY(const auto texts, network.strings(name));
  Destinations out;
  for (const auto& text : texts) {
    if (auto range = egress::Network::parse(text)) {
      out.everything = out.everything || is_everything(range->text());
      out.networks.push_back(*range);
      continue;
    }
    auto domain = domains_too ? parse_domain(text) : std::nullopt;
    if (!domain) {
      return refuse(name, concat("\"", to_valid_utf8(text), "\" is no IP address or CIDR block",
                                 domains_too ? " and no domain name" : ""));
    }
    out.domains.push_back(*std::move(domain));
  }
  if (texts.size() > egress::kMaxMatchersPerRule) {
    return refuse(name, concat("has more than ", egress::kMaxMatchersPerRule, " entries"));
  }
  return out;
}

egress::TrafficRule rule_of(std::string_view name, egress::Action action) {
  egress::TrafficRule rule;
  rule.name = name;
  rule.action = action;
  return rule;
}

Result<> read_traffic(const Fields& network, bool closed, egress::Policy& policy) {
  TRY(auto allowed, read_destinations(network, "allowOut", true));
  TRY(auto denied, read_destinations(network, "denyOut", false));
  closed = closed || denied.everything;
  if (!allowed.domains.empty() && !closed) {
    return refuse("allowOut",
                  "allowed domains need all other traffic denied: add 0.0.0.0/0 to denyOut");
  }
  policy.mode = closed ? egress::Mode::kBlockAll : egress::Mode::kAllowAll;
  if (!allowed.networks.empty()) {
    auto rule = rule_of(kAllowedAddresses, egress::Action::kAllow);
    rule.networks = std::move(allowed.networks);
    policy.traffic_rules.push_back(std::move(rule));
  }
  if (!allowed.domains.empty()) {
    auto rule = rule_of(kAllowedDomains, egress::Action::kAllow);
    rule.domains = std::move(allowed.domains);
    policy.traffic_rules.push_back(std::move(rule));
  }
  if (!denied.networks.empty()) {
    auto rule = rule_of(kDenied, egress::Action::kDeny);
    rule.networks = std::move(denied.networks);
    policy.traffic_rules.push_back(std::move(rule));
  }
  return {};
}

// --- rules -----------------------------------------------------------------------------------

// Literal text becomes a sealed value, a secret the key of a late source.
Result<std::string> read_value(std::string_view text, SecretValues& values,
                               std::vector<std::string>& secrets) {
  std::string out;
  const auto add_text = [&](std::string_view literal) {
    if (!literal.empty() || text.empty()) {
      std::string key = concat("text", values.size());
      out += concat("{{ .", key, " }}");
      values.insert_or_assign(std::move(key), secrets::Plaintext{literal});
    }
  };
  if (text.contains(kIdentityOpens)) {
    return fail(Code::kInvalidArgument, "workload identity tokens are not offered by this server");
  }
  for (;;) {
    const auto open = text.find(kSecretOpens);
    add_text(text.substr(0, open));
    if (open == std::string_view::npos) {
      return out;
    }
    text.remove_prefix(open + kSecretOpens.size());
    const auto close = text.find('}');
    if (close == std::string_view::npos) {
      return fail(Code::kInvalidArgument, "${e2b.secrets.NAME} is not closed");
    }
    const std::string name = to_lower(text.substr(0, close));
    TRY_DO(control::check_source_name(name));
    auto known = std::ranges::find(secrets, name);
    if (known == secrets.end()) {
      known = secrets.insert(known, name);
    }
    out += concat("{{ .source", known - secrets.begin(), kSecretKey, " }}");
    text.remove_prefix(close + 1);
    if (text.empty()) {
      return out;
    }
  }
}

Result<> check_header(std::string_view name, std::string_view value) {
  const auto is_token = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view{"!#$%&'*+-.^_`|~"}.contains(c);
  };
  constexpr std::string_view kOurs[] = {"host",       "content-length", "transfer-encoding",
                                        "connection", "upgrade",        "te",
                                        "keep-alive", "trailer",        "proxy-connection"};
  if (name.empty() || name.size() > kMaxRuleHeaderNameBytes ||
      !std::ranges::all_of(name, is_token) ||
      std::ranges::find(kOurs, to_lower(name)) != std::end(kOurs)) {
    return refuse("rules", concat("\"", to_valid_utf8(name), "\" is no header that can be set"));
  }
  const bool printable = std::ranges::none_of(
      value, [](char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 127; });
  if (value.size() > kMaxRuleHeaderValueBytes || !printable) {
    return refuse("rules", concat("the value of header ", name, " is longer than ",
                                  kMaxRuleHeaderValueBytes, " bytes or has control characters"));
  }
  return {};
}

// Nothing: the rule changes nothing.
Result<std::optional<control::BindingDocument>> read_transform(const Json& rules,
                                                               const ValueSealer& seal) {
  const Json::Array* const list = rules.as_array();
  if (list == nullptr || list->size() > 1) {
    return refuse("rules", "each domain has a list of at most one rule");
  }
  if (list->empty()) {
    return std::nullopt;
  }
  TRY(const auto rule, Fields::of(list->front(), "network.rules", {"transform"}));
  TRY(const auto transform, rule.object("transform", {"headers"}));
  TRY(auto headers, transform.string_map("headers"));
  if (headers.size() > kMaxRuleHeaders) {
    return refuse("rules", concat("a transform has more than ", kMaxRuleHeaders, " headers"));
  }
  control::BindingDocument document;
  egress::Binding& binding = document.binding;
  binding.projection.kind = egress::ProjectionKind::kHttpHeaders;
  SecretValues values;
  for (auto& [name, value] : headers) {
    TRY_DO(check_header(name, value));
    auto text = read_value(value, values, binding.late_sources);
    secrets::wipe(value);
    if (!text) {
      return refuse("rules", concat("header ", name, ": ", text.error().message));
    }
    binding.projection.headers.push_back({.name = name, .value_template = *std::move(text)});
  }
  if (binding.projection.headers.empty()) {
    return std::nullopt;
  }
  TRY(binding.sealed, seal(values));
  return document;
}

// An exact name comes before a wildcard, and a longer wildcard before a shorter one.
bool is_closer(const egress::CredentialRule& a, const egress::CredentialRule& b) {
  const std::string& left = a.domains.front().text();
  const std::string& right = b.domains.front().text();
  const bool exact = !left.starts_with('.');
  const bool other_exact = !right.starts_with('.');
  return exact != other_exact          ? exact
         : left.size() != right.size() ? left.size() > right.size()
                                       : left < right;
}

Result<> read_rules(const Json& network, const ValueSealer& seal, control::NetworkDocument& out) {
  const Json* const rules = network.find("rules");
  if (rules == nullptr) {
    return {};
  }
  const Json::Object* const domains = rules->as_object();
  if (domains == nullptr || domains->size() > kMaxRuleDomains) {
    return refuse("rules", concat("must be an object with at most ", kMaxRuleDomains, " domains"));
  }
  for (const auto& [name, list] : *domains) {
    auto domain = parse_domain(name);
    if (!domain) {
      return refuse("rules", concat("\"", to_valid_utf8(name), "\" is no domain name"));
    }
    TRY(auto document, read_transform(list, seal));
    if (!document) {
      continue;
    }
    document->binding.ref = concat(kTransform, out.bindings.size());
    egress::CredentialRule rule{.name = document->binding.ref,
                                .credential_ref = document->binding.ref,
                                .protocol = egress::CredentialProtocol::kHttps,
                                .tls_mode = egress::TlsMode::kTerminate};
    rule.domains.push_back(*std::move(domain));
    out.policy.credential_rules.push_back(std::move(rule));
    out.bindings.push_back(*std::move(document));
  }
  std::ranges::sort(out.policy.credential_rules, is_closer);
  return {};
}

// --- egressProxy -----------------------------------------------------------------------------

Result<> read_proxy(const Fields& network, const ValueSealer& seal, control::NetworkDocument& out) {
  if (!network.has("egressProxy")) {
    return {};
  }
  TRY(const auto fields, network.object("egressProxy", {"address", "username", "password"}));
  TRY(const auto address, fields.required_string("address"));
  const auto colon = address.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : parse_u64(address.substr(colon + 1));
  std::string host = address.substr(0, std::min(colon, address.size()));
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  if (!port || *port < 1 || *port > 65'535 ||
      (!egress::Address::parse(host) && !egress::normal_host_name(host))) {
    return refuse("egressProxy.address", "must be host:port of a SOCKS5 proxy");
  }
  out.policy.proxy = egress::UpstreamProxy{
      .host = std::move(host), .port = static_cast<std::uint16_t>(*port), .credential_ref = {}};
  TRY(auto username, fields.string("username"));
  TRY(auto password, fields.string("password"));
  if (!username && !password) {
    return {};
  }
  SecretValues values;
  values.emplace("username", secrets::Plaintext{username.value_or("")});
  values.emplace("password", secrets::Plaintext{password.value_or("")});
  control::BindingDocument document;
  document.binding.ref = kProxyLogin;
  document.binding.projection.kind = egress::ProjectionKind::kUsernamePassword;
  TRY(document.binding.sealed, seal(values));
  if (password) {
    secrets::wipe(*password);
  }
  out.policy.proxy->credential_ref = kProxyLogin;
  out.bindings.push_back(std::move(document));
  return {};
}

Result<NetworkRequest> read_egress(const Json& json, const Fields& network, bool closed,
                                   const ValueSealer& seal) {
  NetworkRequest out;
  out.has_bindings = true;
  TRY_DO(read_traffic(network, closed, out.document.policy));
  TRY_DO(read_rules(json, seal, out.document));
  TRY_DO(read_proxy(network, seal, out.document));
  return out;
}

// --- public traffic --------------------------------------------------------------------------

Result<> read_public(const Json& json, const Fields& network, NetworkOptions& out) {
  TRY(const auto allow, network.boolean("allowPublicTraffic"));
  out.allow_public_traffic = allow.value_or(true);
  TRY(auto mask, network.string("maskRequestHost"));
  out.mask_request_host = std::move(mask).value_or("");
  const bool good = std::ranges::all_of(out.mask_request_host, [](char c) {
    return c > ' ' && c < 127 && !std::string_view{"/?#@\\,\""}.contains(c);
  });
  if (!good || out.mask_request_host.size() > kMaxMaskBytes) {
    return refuse("maskRequestHost", "must be a host, with ${PORT} where the port goes");
  }
  const Json* const ports = json.find("httpsPorts");
  if (ports == nullptr) {
    return {};
  }
  const Json::Array* const list = ports->as_array();
  if (list == nullptr || list->size() > kMaxHttpsPorts) {
    return refuse("httpsPorts", concat("must be a list of at most ", kMaxHttpsPorts, " ports"));
  }
  for (const Json& port : *list) {
    const std::int64_t* const number = port.as_integer();
    if (number == nullptr || *number < 1 || *number > 65'535 || *number == kEnvdPort) {
      return refuse("httpsPorts", concat("has ports from 1 to 65535, and not ", kEnvdPort));
    }
    out.https_ports.push_back(static_cast<std::uint16_t>(*number));
  }
  return {};
}

// --- back ------------------------------------------------------------------------------------

// Secrets by their names; what was written out is not told.
std::string told_value(std::string_view value) {
  std::string out;
  while (!value.empty()) {
    const auto open = value.find(kSecretOpens);
    if (open != 0) {
      out += kHidden;
      value.remove_prefix(std::min(open, value.size()));
      continue;
    }
    const auto end = std::min(value.find('}'), value.size() - 1) + 1;
    out += value.substr(0, end);
    value.remove_prefix(end);
  }
  return out;
}

Json told_rules(const Json& rules) {
  Json out = Json::object();
  for (const auto& [domain, list] : *rules.as_object()) {
    Json told = Json::array();
    for (const Json& rule : *list.as_array()) {
      Json headers = Json::object();
      const Json* const transform = rule.find("transform");
      const Json* const given = transform == nullptr ? nullptr : transform->find("headers");
      if (given != nullptr) {
        for (const auto& [name, value] : *given->as_object()) {
          headers.set(name, told_value(*value.as_string()));
        }
      }
      told.push(Json::object({{"transform", Json::object({{"headers", std::move(headers)}})}}));
    }
    out.set(to_lower(domain), std::move(told));
  }
  return out;
}

// REQUIRES: read_egress() took it.
Json told_egress(const Json& network) {
  Json out = Json::object();
  for (const auto* name : {"allowOut", "denyOut"}) {
    if (const Json* const list = network.find(name)) {
      out.set(name, *list);
    }
  }
  if (const Json* const rules = network.find("rules")) {
    out.set("rules", told_rules(*rules));
  }
  if (const Json* const proxy = network.find("egressProxy")) {
    Json told = Json::object();
    for (const auto* name : {"address", "username"}) {
      if (const Json* const value = proxy->find(name)) {
        told.set(name, *value);
      }
    }
    out.set("egressProxy", std::move(told));
  }
  return out;
}

}  // namespace

Result<NetworkOptions> read_network_options(const Json& body, const ValueSealer& seal) {
  NetworkOptions out;
  const Json* const access = body.find("allow_internet_access");
  if (access != nullptr && access->as_bool() == nullptr) {
    return fail(Code::kInvalidArgument, "allow_internet_access: must be true or false");
  }
  const bool closed = access != nullptr && !*access->as_bool();
  const Json* const given = body.find("network");
  const Json none = Json::object();
  const Json& json = given == nullptr ? none : *given;
  TRY(const auto network, Fields::of(json, "network",
                                     {"allowOut", "denyOut", "rules", "egressProxy",
                                      "allowPublicTraffic", "maskRequestHost", "httpsPorts"}));
  TRY_DO(read_public(json, network, out));
  TRY(auto egress, read_egress(json, network, closed, seal));
  const bool said = access != nullptr || network.has("allowOut") || network.has("denyOut") ||
                    network.has("rules") || network.has("egressProxy");
  if (said) {
    out.egress = std::make_shared<const NetworkRequest>(std::move(egress));
  }
  if (access != nullptr) {
    out.internet = !closed;
  }
  out.told = told_egress(json);
  return out;
}

Result<NetworkUpdate> read_network_update(const Json& body, const ValueSealer& seal) {
  TRY(const auto network,
      Fields::of(body, "network",
                 {"allowOut", "denyOut", "rules", "egressProxy", "allow_internet_access"}));
  NetworkUpdate out;
  TRY(out.internet, network.boolean("allow_internet_access"));
  TRY(auto egress, read_egress(body, network, !out.internet.value_or(true), seal));
  out.egress = std::make_shared<const NetworkRequest>(std::move(egress));
  out.told = told_egress(body);
  return out;
}

}  // namespace atl::service::e2b
