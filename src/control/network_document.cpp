#include "control/network_document.h"

#include <algorithm>

#include "base/strings.h"
#include "control/stored_network.h"
#include "egress/host_name.h"
#include "egress/policy_json.h"

namespace atl::control {
namespace {

using egress::CredentialProtocol;
using egress::ProjectionKind;

std::unexpected<Error> refuse(std::string_view where, std::string_view name,
                              std::string_view what) {
  return fail(Code::kInvalidArgument, concat("field \"", where, ".", name, "\": ", what));
}

bool is_group(std::string_view text) {
  return !text.empty() && text.size() <= 63 && text.front() != '-' && text.back() != '-' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

Result<> read_groups(const Fields& fields, std::string_view where, NetworkRequest& out) {
  out.has_groups = fields.has("groups");
  TRY(out.document.groups, fields.strings("groups"));
  if (out.document.groups.size() > kMaxGroups ||
      !std::ranges::all_of(out.document.groups, is_group)) {
    return refuse(where, "groups",
                  concat("has at most ", kMaxGroups, " names of a-z, 0-9 and '-'"));
  }
  return {};
}

// The ways to use a credential over each protocol.
bool fits(CredentialProtocol protocol, ProjectionKind kind) {
  switch (protocol) {
    case CredentialProtocol::kHttp:
    case CredentialProtocol::kHttps:
    case CredentialProtocol::kGrpc:
      return kind == ProjectionKind::kHttpHeaders || kind == ProjectionKind::kPlaceholders;
    case CredentialProtocol::kTls:
      return kind == ProjectionKind::kTlsClientCertificate;
    case CredentialProtocol::kSsh:
      return kind == ProjectionKind::kSshProxy;
    case CredentialProtocol::kSocks5:
    case CredentialProtocol::kMqtt:
    case CredentialProtocol::kRedis:
    case CredentialProtocol::kPostgres:
      return kind == ProjectionKind::kUsernamePassword;
  }
  return false;
}

const BindingDocument* binding_of(const NetworkDocument& document, std::string_view ref) {
  const auto found = std::ranges::find_if(
      document.bindings, [&](const BindingDocument& b) { return b.binding.ref == ref; });
  return found == document.bindings.end() ? nullptr : &*found;
}

Result<> check_rule(const NetworkDocument& merged, const egress::CredentialRule& rule,
                    std::string_view where, const std::string& name) {
  const BindingDocument* const bound = binding_of(merged, rule.credential_ref);
  if (bound == nullptr) {
    return refuse(
        where, concat(name, ".credentialRef"),
        concat("\"", to_valid_utf8(rule.credential_ref), "\" is none of credentialBindings"));
  }
  const ProjectionKind kind = bound->binding.projection.kind;
  if (!fits(rule.protocol, kind)) {
    return refuse(
        where, concat(name, ".protocol"),
        concat("a credential that is bound as ", projection_name(kind), " cannot be used over it"));
  }
  if (rule.protocol == CredentialProtocol::kTls && rule.tls_mode != egress::TlsMode::kTerminate) {
    return refuse(where, concat(name, ".tlsMode"),
                  "a client certificate needs terminate-reoriginate");
  }
  return {};
}

Result<NetworkRequest> read_document(const Json& document, const std::string& where,
                                     NetworkPlace place) {
  NetworkRequest out;
  TRY(out.document.policy,
      egress::read_policy(document, where,
                          {"credentialBindings", "groups", "floor", "floors", "failure"}));
  // `floors` and `failure` are what GET says beside the policy: to send them back changes nothing.
  TRY(const auto fields,
      Fields::of(document, where,
                 {"mode", "egress", "credentialBindings", "groups", "floor", "floors", "failure"}));
  TRY_DO(read_groups(fields, where, out));
  out.has_bindings = fields.has("credentialBindings");
  TRY(out.document.bindings, read_bindings(fields));
  TRY(const auto floor, fields.boolean("floor"));
  out.document.floor = floor.value_or(false);
  if (place != NetworkPlace::kTemplate && fields.has("floor")) {
    return refuse(where, "floor", "only a template's network can be a floor");
  }
  const bool credentials =
      out.has_bindings || !out.document.policy.credential_rules.empty() ||
      (out.document.policy.proxy && !out.document.policy.proxy->credential_ref.empty());
  if (place == NetworkPlace::kOperator && (credentials || out.has_groups)) {
    return refuse(where, "egress", "an operator's policy has no credentials and no groups");
  }
  return out;
}

}  // namespace

Result<NetworkRequest> read_network(const Json& document, std::string where, NetworkPlace place) {
  TRY(auto request, read_document(document, where, place));
  for (const auto& each : request.document.bindings) {
    if (!each.binding.sealed.empty()) {
      return refuse(where, "credentialBindings",
                    "has sealed values, which only this server can make; leave credentialBindings "
                    "out to keep them");
    }
  }
  return request;
}

Result<NetworkRequest> read_stored_network(const Json& document) {
  return read_document(document, "network", NetworkPlace::kRequest);
}

Json show_network(NetworkDocument document) {
  for (auto& each : document.bindings) {
    if (!each.binding.sealed.empty()) {
      each.binding.sealed = "[hidden]";
    }
  }
  return write_network(document);
}

Json write_network(const NetworkDocument& document) {
  Json json = egress::write_policy(document.policy);
  if (!document.bindings.empty()) {
    json.set("credentialBindings", write_bindings(document.bindings));
  }
  if (!document.groups.empty()) {
    json.set("groups", Json::Array(document.groups.begin(), document.groups.end()));
  }
  if (document.floor) {
    json.set("floor", true);
  }
  return json;
}

NetworkDocument merge_networks(const NetworkDocument& below, const NetworkDocument& above) {
  NetworkDocument merged = below;
  merged.policy = egress::merge_policies(below.policy, above.policy);
  if (below.floor && below.policy.proxy) {
    merged.policy.proxy = below.policy.proxy;
  }
  if (!above.groups.empty()) {
    merged.groups = above.groups;
  }
  for (const BindingDocument& binding : above.bindings) {
    const auto same = std::ranges::find_if(merged.bindings, [&](const BindingDocument& other) {
      return other.binding.ref == binding.binding.ref;
    });
    if (same != merged.bindings.end()) {
      *same = binding;
    } else {
      merged.bindings.push_back(binding);
    }
  }
  return merged;
}

Result<> check_credentials(const NetworkDocument& merged, std::string_view where) {
  const auto& rules = merged.policy.credential_rules;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    TRY_DO(check_rule(merged, rules[i], where, concat("egress.credentialRules[", i, "]")));
  }
  const auto& proxy = merged.policy.proxy;
  if (!proxy || proxy->credential_ref.empty()) {
    return {};
  }
  const BindingDocument* const bound = binding_of(merged, proxy->credential_ref);
  if (bound == nullptr || bound->binding.projection.kind != ProjectionKind::kUsernamePassword) {
    return refuse(where, "egress.proxy.credentialRef",
                  "must be one of credentialBindings that is bound as username_password");
  }
  return {};
}

}  // namespace atl::control
