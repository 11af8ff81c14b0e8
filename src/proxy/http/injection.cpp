#include "proxy/http/injection.h"

#include <algorithm>

#include "base/strings.h"
#include "egress/placeholders.h"
#include "http/http1_gate.h"
#include "proxy/http/fields.h"
#include "proxy/http/placeholder_guard.h"

namespace atl::proxy::http {
namespace {

using egress::CredentialProtocol;
using egress::CredentialRule;
using egress::Material;
using egress::ProjectionKind;
using egress::Replacement;

using Refused = std::optional<Answer>;

// The sandbox's own rules come last in the stack and count first.
const CredentialRule* find_rule(const egress::SandboxRules& rules, const egress::Flow& flow,
                                CredentialProtocol protocol, const egress::RequestFacts* facts) {
  for (auto layer = rules.layers.rbegin(); layer != rules.layers.rend(); ++layer) {
    if (const auto* rule = egress::credential_rule(layer->policy, flow, protocol, facts)) {
      return rule;
    }
  }
  return nullptr;
}

const CredentialRule* request_rule(const Conversation& conversation, const Plan& plan,
                                   const egress::RequestFacts& facts) {
  const auto& rules = *plan.rules;
  if (!conversation.secure) {
    return find_rule(rules, conversation.flow, CredentialProtocol::kHttp, &facts);
  }
  const auto type = to_lower(plan.request.headers.get("content-type"));
  if (type.starts_with("application/grpc")) {
    if (const auto* rule = find_rule(rules, conversation.flow, CredentialProtocol::kGrpc, &facts)) {
      return rule;
    }
  }
  return find_rule(rules, conversation.flow, CredentialProtocol::kHttps, &facts);
}

Answer refusal(const Conversation& conversation, int status, std::string code, std::string reason,
               std::string_view rule = {}) {
  return denial_answer({.status = status,
                        .code = std::move(code),
                        .reason = std::move(reason),
                        .rule = std::string{rule},
                        .origin = {}},
                       conversation.account->record.id);
}

// All placeholders but those of the binding in use, and those that may go anywhere.
std::vector<std::string> foreign_placeholders(const egress::SandboxRules& rules,
                                              std::string_view used_ref) {
  std::vector<std::string> foreign;
  for (const auto& binding : rules.bindings) {
    if (binding.projection.kind != ProjectionKind::kPlaceholders || binding.ref == used_ref ||
        binding.projection.forward_unmatched) {
      continue;
    }
    for (const auto& one : binding.projection.placeholders) {
      foreign.push_back(one.placeholder);
    }
  }
  return foreign;
}

Refused add_headers(const Conversation& conversation, const Material& material,
                    RequestHead& request) {
  for (const auto& header : material.headers) {
    if (!atl::http::is_token(header.name) || !atl::http::is_field_value(header.value)) {
      return refusal(conversation, 502, "credential_unusable",
                     "the credential cannot be sent as a header field");
    }
    remove_folded(request.headers, header.name);
  }
  for (const auto& header : material.headers) {
    request.headers.add(header.name, header.value);
  }
  return std::nullopt;
}

std::vector<Replacement> replacements_for(const Material& material,
                                          bool Material::Placeholder::* place) {
  std::vector<Replacement> found;
  for (const auto& one : material.placeholders) {
    if (one.*place) {
      found.push_back({one.placeholder, one.value});
    }
  }
  return found;
}

class RewriteFilter final : public BodyFilter {
 public:
  RewriteFilter(std::vector<Replacement> replacements, egress::ValueEscape escape)
      : rewriter_(std::move(replacements), escape) {}
  Result<std::string> feed(std::string_view bytes) override { return rewriter_.feed(bytes); }
  Result<std::string> finish() override { return rewriter_.finish(); }

 private:
  egress::PlaceholderRewriter rewriter_;
};

bool is_encoded(const RequestHead& request) {
  const auto encoding = request.headers.get("content-encoding");
  return request.headers.count("content-encoding") > 1 ||
         (!encoding.empty() && !equals_ignore_case(trim(encoding), "identity"));
}

Refused substitute(const Conversation& conversation, const Material& material, Plan& plan) {
  RequestHead& request = plan.request;
  if (const auto found = replacements_for(material, &Material::Placeholder::in_header);
      !found.empty()) {
    Headers rewritten;
    for (const auto& [name, value] : request.headers.lines()) {
      auto text = egress::rewrite_header(name, value, found);
      if (!text) {
        return refusal(conversation, 502, "credential_unusable", text.error().message);
      }
      rewritten.add(name, *text);
    }
    request.headers = std::move(rewritten);
  }
  const auto question = request.target.find('?');
  if (const auto found = replacements_for(material, &Material::Placeholder::in_query);
      !found.empty() && question != std::string::npos) {
    request.target = concat(request.target.substr(0, question + 1),
                            egress::rewrite_text(request.target.substr(question + 1), found,
                                                 egress::ValueEscape::kPercent));
  }
  auto found = replacements_for(material, &Material::Placeholder::in_body);
  if (found.empty() || !request.has_body) {
    return std::nullopt;
  }
  if (is_encoded(request)) {
    return refusal(conversation, 403, "encoded_body",
                   "a credential rule covers this request, and its body is compressed: send it as "
                   "it is");
  }
  for (const auto& one : material.placeholders) {
    plan.forbidden.push_back(one.placeholder);
  }
  const auto escape = egress::escape_for_content_type(request.headers.get("content-type"));
  plan.request_filters.add(std::make_unique<RewriteFilter>(std::move(found), escape));
  plan.changes_length = true;
  return std::nullopt;
}

Refused guard_placeholders(const Conversation& conversation, Plan& plan,
                           std::string_view used_ref) {
  auto foreign = foreign_placeholders(*plan.rules, used_ref);
  if (foreign.empty()) {
    return std::nullopt;
  }
  bool found = carries_placeholder(plan.request.target, foreign);
  for (const auto& [name, value] : plan.request.headers.lines()) {
    found = found || carries_placeholder(value, foreign) || carries_placeholder(name, foreign);
  }
  if (found) {
    return refusal(conversation, 403, "placeholder_misdirected",
                   std::string{kMisdirectedPlaceholder});
  }
  if (plan.request.has_body) {
    plan.request_filters.add(std::make_unique<PlaceholderGuard>(foreign));
  }
  if (plan.request.wants_websocket) {
    plan.request.headers.remove("sec-websocket-extensions");  // compression would hide them
  }
  plan.forbidden = std::move(foreign);
  return std::nullopt;
}

void note_credential(const Conversation& conversation, const CredentialRule& rule,
                     const Material& material) {
  const auto& version = material.source_version;
  conversation.account->record.credential =
      version.find('@') != std::string::npos ? version : concat(rule.credential_ref, "@", version);
}

Refused use_material(const Conversation& conversation, const CredentialRule& rule,
                     egress::MaterialPtr material, Plan& plan) {
  note_credential(conversation, rule, *material);
  if (!material->ca_pem.empty() || material->kind == ProjectionKind::kTlsClientCertificate) {
    plan.route.identity = material;
  }
  const auto* binding = plan.rules->binding(rule.credential_ref);
  if (material->redact_responses || (binding != nullptr && binding->projection.redact_responses)) {
    plan.redacts = true;
    plan.request.headers.set("accept-encoding", "identity");
    plan.request.headers.remove("range");  // pieces of a value are not recognised
  }
  plan.materials.push_back(material);
  switch (material->kind) {
    case ProjectionKind::kHttpHeaders:
      return add_headers(conversation, *material, plan.request);
    case ProjectionKind::kPlaceholders:
      return substitute(conversation, *material, plan);
    case ProjectionKind::kTlsClientCertificate:
      return std::nullopt;
    default:
      return refusal(conversation, 502, "credential_unusable",
                     "this kind of credential cannot be used in HTTP");
  }
}

Task<Refused> use_rule(Conversation& conversation, const CredentialRule& rule, Plan& plan) {
  auto material =
      co_await conversation.surroundings.credentials.resolve(plan.rules, rule.credential_ref);
  if (!material || *material == nullptr) {
    if (rule.fail_open) {
      co_return Refused{};
    }
    auto reason = material ? std::string{"the credential has no value"} : material.error().message;
    co_return Refused{
        refusal(conversation, 502, "credential_unavailable", std::move(reason), rule.name)};
  }
  co_return use_material(conversation, rule, *std::move(material), plan);
}

}  // namespace

Task<std::optional<Answer>> inject(Conversation& conversation, Plan& plan,
                                   const egress::RequestFacts& facts) {
  const auto* rule = request_rule(conversation, plan, facts);
  auto refused =
      guard_placeholders(conversation, plan, rule != nullptr ? rule->credential_ref : "");
  if (refused) {
    co_return refused;
  }
  const auto* identity_rule = conversation.secure ? find_rule(*plan.rules, conversation.flow,
                                                              CredentialProtocol::kTls, nullptr)
                                                  : nullptr;
  if (identity_rule != nullptr && identity_rule != rule) {
    CO_TRY(refused, co_await use_rule(conversation, *identity_rule, plan));
  }
  if (!refused && rule != nullptr) {
    CO_TRY(refused, co_await use_rule(conversation, *rule, plan));
  }
  co_return refused;
}

}  // namespace atl::proxy::http
