// What a credential source is made of: its kind, and texts by their names, all of them secret.
//
// The static kinds hold their values themselves. The others hold what it takes to get them: from an
// OAuth2 token endpoint, from a URL that answers JSON, from a program of the operator.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "control/value_template.h"
#include "egress/binding.h"
#include "store/room.h"

namespace atl::control {

inline constexpr std::size_t kMaxSourceValues = 64;
inline constexpr std::size_t kMaxSourceBytes = std::size_t{48} * 1024;
inline constexpr std::size_t kMaxSourceNameBytes = 128;

enum class SourceKind : std::uint8_t {
  kStaticHeaders,
  kStaticUsernamePassword,
  kStaticTlsClientCertificate,
  kStaticSshPrivateKey,
  kOauth2ClientCredentials,
  kOauth2RefreshToken,
  kHttp,
  kCommand,
};
std::string_view source_kind_name(SourceKind kind);  // "static_headers"
Result<SourceKind> source_kind_of(std::string_view name);
// Its values are fetched when they are needed.
bool is_dynamic(SourceKind kind);
// Whether it can have what the projection needs.
bool can_project(SourceKind source, egress::ProjectionKind projection);

struct CredentialSpec {
  SourceKind kind = SourceKind::kStaticHeaders;
  SecretValues values;
  std::optional<store::StringMap> labels;  // no secrets; none: as they were
};

// "spec" of a request. The caller wipes the JSON.
Result<CredentialSpec> read_credential_spec(const Json& spec, SourceKind kind);
Result<> check_source_name(std::string_view name);

// Between values and the bytes that are sealed.
Result<secrets::Plaintext> pack_values(const SecretValues& values);
Result<SecretValues> unpack_values(const secrets::Plaintext& packed);
SecretValues copy_values(const SecretValues& values);
// Every text in it is overwritten.
void wipe_json(Json& json);

}  // namespace atl::control
