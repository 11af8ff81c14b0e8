#include "control/credential_resolver.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::control {
namespace {

using egress::Material;
using egress::ProjectionKind;

bool can_be_header(std::string_view value) {
  return std::ranges::none_of(
      value, [](char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 127; });
}

Result<std::string> render(const std::string& text, const SecretValues& values) {
  TRY(const auto parsed, ValueTemplate::parse(text));
  return parsed.render(values);
}

Result<> project_headers(const egress::Projection& projection, const SecretValues& values,
                         Material& material) {
  for (const auto& header : projection.headers) {
    // In place first, so that it is wiped however this ends.
    auto& out = material.headers.emplace_back(Material::Header{.name = header.name, .value = {}});
    TRY(out.value, render(header.value_template, values));
    if (!can_be_header(out.value)) {
      return fail(Code::kFailedPrecondition,
                  concat("the credential's value cannot be in the header ", header.name),
                  "credential_value");
    }
  }
  return {};
}

Result<> project_placeholders(const egress::Projection& projection, const SecretValues& values,
                              Material& material) {
  for (const auto& placeholder : projection.placeholders) {
    auto& out = material.placeholders.emplace_back(
        Material::Placeholder{.placeholder = placeholder.placeholder,
                              .value = {},
                              .in_header = placeholder.in_header,
                              .in_query = placeholder.in_query,
                              .in_body = placeholder.in_body});
    TRY(out.value, render(placeholder.value_template, values));
    if (placeholder.in_header && !can_be_header(out.value)) {
      return fail(Code::kFailedPrecondition, "the credential's value cannot be in a header",
                  "credential_value");
    }
  }
  return {};
}

Result<> take(const SecretValues& values, std::string_view name, bool required, std::string& into) {
  const auto found = values.find(name);
  if (found != values.end()) {
    into = found->second.reveal();
  } else if (required) {
    return fail(Code::kFailedPrecondition, concat("the credential has no value \"", name, "\""),
                "credential_key");
  }
  return {};
}

}  // namespace

Result<egress::MaterialPtr> project(const egress::Binding& binding, const SecretValues& values,
                                    std::string source_version) {
  auto material = std::make_shared<Material>();
  const egress::Projection& projection = binding.projection;
  material->kind = projection.kind;
  material->source_version = std::move(source_version);
  material->redact_responses = projection.redact_responses;
  // No growing: a vector that moves its elements leaves short strings behind.
  material->headers.reserve(projection.headers.size());
  material->placeholders.reserve(projection.placeholders.size());
  switch (projection.kind) {
    case ProjectionKind::kHttpHeaders:
      TRY_DO(project_headers(projection, values, *material));
      break;
    case ProjectionKind::kPlaceholders:
      TRY_DO(project_placeholders(projection, values, *material));
      break;
    case ProjectionKind::kTlsClientCertificate:
      TRY_DO(take(values, "certificatePem", true, material->certificate_pem));
      TRY_DO(take(values, "privateKeyPem", true, material->key_pem));
      TRY_DO(take(values, "caPem", false, material->ca_pem));
      break;
    case ProjectionKind::kUsernamePassword:
      TRY_DO(take(values, "username", true, material->username));
      TRY_DO(take(values, "password", true, material->password));
      break;
    case ProjectionKind::kSshProxy:
      TRY_DO(take(values, "privateKeyPem", true, material->ssh_private_key_pem));
      TRY_DO(take(values, "passphrase", false, material->ssh_passphrase));
      break;
  }
  return material;
}

Task<egress::MaterialPtr> CredentialResolver::resolve(egress::RulesPtr rules, std::string ref) {
  const egress::Binding* const binding = rules->binding(ref);
  if (binding == nullptr) {
    co_return fail(Code::kFailedPrecondition,
                   concat("the credential \"", to_valid_utf8(ref), "\" is not bound"),
                   "credential_unbound");
  }
  if (binding->has_own_values()) {
    CO_TRY(const OpenedSource own, sources_.open_own(rules->team_id, *binding));
    co_return project(*binding, own.values, ref);
  }
  CO_TRY(OpenedSource opened, sources_.open(rules->team_id, binding->source_ref));
  if (!can_project(opened.source.kind, binding->projection.kind)) {
    co_return fail(Code::kFailedPrecondition,
                   concat("the credential \"", ref, "\" cannot be used like this"),
                   "credential_kind");
  }
  const std::string version = concat(opened.source.name, "@", opened.source.version);
  if (!is_dynamic(opened.source.kind)) {
    co_return project(*binding, opened.values, version);
  }
  CO_TRY(const SharedValues values,
         co_await fetcher_.values(std::move(opened), binding->cache_seconds));
  co_return project(*binding, *values, version);
}

}  // namespace atl::control
