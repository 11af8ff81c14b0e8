#include "control/credential_spec.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/json_fields.h"
#include "base/strings.h"
#include "http/client.h"

namespace atl::control {
namespace {

using Names = std::initializer_list<std::string_view>;
using egress::ProjectionKind;

struct KindRow {
  SourceKind kind;
  std::string_view name;
  std::string_view part;  // of the spec
};
constexpr KindRow kKinds[] = {
    {SourceKind::kStaticHeaders, "static_headers", "staticHeaders"},
    {SourceKind::kStaticUsernamePassword, "static_username_password", "staticUsernamePassword"},
    {SourceKind::kStaticTlsClientCertificate, "static_tls_client_certificate",
     "staticTLSClientCertificate"},
    {SourceKind::kStaticSshPrivateKey, "static_ssh_private_key", "staticSSHPrivateKey"},
    {SourceKind::kOauth2ClientCredentials, "oauth2_client_credentials", "oauth2ClientCredentials"},
    {SourceKind::kOauth2RefreshToken, "oauth2_refresh_token", "oauth2RefreshToken"},
    {SourceKind::kHttp, "http", "http"},
    {SourceKind::kCommand, "command", "command"},
};

std::unexpected<Error> refuse(const Fields& fields, std::string_view name, std::string_view what) {
  return fail(Code::kInvalidArgument, concat("field \"", fields.path(name), "\": ", what));
}

void put(SecretValues& values, std::string_view name, std::string& text) {
  values.insert_or_assign(std::string{name}, secrets::Plaintext{text});
  secrets::wipe(text);
}

// What is there of `names`; the first `required` must be.
Result<> take(const Fields& part, Names names, std::size_t required, SecretValues& values) {
  std::size_t index = 0;
  for (const auto name : names) {
    TRY(auto text, part.string(name));
    if (index++ < required && (!text || text->empty())) {
      return refuse(part, name, "is missing");
    }
    if (text && !text->empty()) {
      put(values, name, *text);
    }
  }
  return {};
}

Result<> take_map(const Fields& part, std::string_view name, std::string_view prefix,
                  SecretValues& values) {
  TRY(auto map, part.string_map(name));
  if (map.size() > kMaxSourceValues) {
    return refuse(part, name, concat("has more than ", kMaxSourceValues, " entries"));
  }
  for (auto& [key, text] : map) {
    put(values, concat(prefix, key), text);
  }
  return {};
}

Result<> check_pem(const Fields& part, std::string_view name, const SecretValues& values) {
  const auto found = values.find(name);
  if (found != values.end() && !found->second.reveal().contains("-----BEGIN ")) {
    return refuse(part, name, "must be PEM");
  }
  return {};
}

Result<> check_url(const Fields& part, std::string_view name, const SecretValues& values) {
  const std::string_view text = values.find(name)->second.reveal();
  const bool clean = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 127; });
  // The client's message would repeat the URL, which may hold a secret.
  if (!clean || text.contains('#') || text.contains('@') ||
      !http::parse_url(text.substr(0, text.find('?')))) {
    return refuse(part, name, "must be an http or https URL without user and fragment");
  }
  return {};
}

Result<> read_oauth(const Fields& part, bool refresh, SecretValues& values) {
  if (refresh) {
    TRY_DO(
        take(part, {"tokenUrl", "clientId", "refreshToken", "clientSecret", "scope"}, 3, values));
  } else {
    TRY_DO(take(part, {"tokenUrl", "clientId", "clientSecret", "scope", "audience"}, 3, values));
  }
  TRY_DO(check_url(part, "tokenUrl", values));
  TRY(auto style, part.string("authStyle"));
  if (style && *style != "basic" && *style != "body") {
    return refuse(part, "authStyle", "is basic or body");
  }
  if (style) {
    put(values, "authStyle", *style);
  }
  return {};
}

Result<> read_part(const Fields& spec, const KindRow& row, SecretValues& values) {
  switch (row.kind) {
    case SourceKind::kStaticHeaders: {
      TRY(const auto part, spec.object(row.part, {"values"}));
      return take_map(part, "values", "", values);
    }
    case SourceKind::kStaticUsernamePassword: {
      TRY(const auto part, spec.object(row.part, {"username", "password"}));
      return take(part, {"username", "password"}, 2, values);
    }
    case SourceKind::kStaticTlsClientCertificate: {
      TRY(const auto part, spec.object(row.part, {"certificatePem", "privateKeyPem", "caPem"}));
      TRY_DO(take(part, {"certificatePem", "privateKeyPem", "caPem"}, 2, values));
      for (const auto* name : {"certificatePem", "privateKeyPem", "caPem"}) {
        TRY_DO(check_pem(part, name, values));
      }
      return {};
    }
    case SourceKind::kStaticSshPrivateKey: {
      TRY(const auto part, spec.object(row.part, {"privateKeyPem", "passphrase"}));
      TRY_DO(take(part, {"privateKeyPem", "passphrase"}, 1, values));
      return check_pem(part, "privateKeyPem", values);
    }
    case SourceKind::kOauth2ClientCredentials: {
      TRY(const auto part, spec.object(row.part, {"tokenUrl", "clientId", "clientSecret", "scope",
                                                  "audience", "authStyle"}));
      return read_oauth(part, false, values);
    }
    case SourceKind::kOauth2RefreshToken: {
      TRY(const auto part, spec.object(row.part, {"tokenUrl", "clientId", "clientSecret",
                                                  "refreshToken", "scope", "authStyle"}));
      return read_oauth(part, true, values);
    }
    case SourceKind::kHttp: {
      TRY(const auto part, spec.object(row.part, {"url", "headers"}));
      TRY_DO(take(part, {"url"}, 1, values));
      TRY_DO(check_url(part, "url", values));
      return take_map(part, "headers", "header.", values);
    }
    case SourceKind::kCommand: {
      TRY(const auto part, spec.object(row.part, {"name"}));
      TRY_DO(take(part, {"name"}, 1, values));
      const std::string_view name = values.find("name")->second.reveal();
      const bool good =
          name.size() <= 64 && !name.starts_with('.') && std::ranges::all_of(name, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '-' || c == '_' || c == '.';
          });
      return good ? Result<>{} : Result<>{refuse(part, "name", "is no name of a program")};
    }
  }
  return {};
}

}  // namespace

std::string_view source_kind_name(SourceKind kind) {
  return std::ranges::find(kKinds, kind, &KindRow::kind)->name;
}

Result<SourceKind> source_kind_of(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &KindRow::name);
  if (found != std::end(kKinds)) {
    return found->kind;
  }
  std::string known;
  for (const KindRow& row : kKinds) {
    known += concat(known.empty() ? "" : ", ", row.name);
  }
  return fail(Code::kInvalidArgument, concat("field \"resolverKind\": must be one of ", known));
}

bool is_dynamic(SourceKind kind) {
  return kind >= SourceKind::kOauth2ClientCredentials;
}

bool can_project(SourceKind source, ProjectionKind projection) {
  if (source == SourceKind::kHttp || source == SourceKind::kCommand) {
    return true;  // what they answer decides
  }
  switch (projection) {
    case ProjectionKind::kHttpHeaders:
    case ProjectionKind::kPlaceholders:
      return source != SourceKind::kStaticTlsClientCertificate &&
             source != SourceKind::kStaticSshPrivateKey;
    case ProjectionKind::kTlsClientCertificate:
      return source == SourceKind::kStaticTlsClientCertificate;
    case ProjectionKind::kUsernamePassword:
      return source == SourceKind::kStaticUsernamePassword;
    case ProjectionKind::kSshProxy:
      return source == SourceKind::kStaticSshPrivateKey;
  }
  return false;
}

Result<CredentialSpec> read_credential_spec(const Json& spec, SourceKind kind) {
  TRY(const auto fields,
      Fields::of(spec, "spec",
                 {"staticHeaders", "staticUsernamePassword", "staticTLSClientCertificate",
                  "staticSSHPrivateKey", "oauth2ClientCredentials", "oauth2RefreshToken", "http",
                  "command"}));
  const auto row = std::ranges::find(kKinds, kind, &KindRow::kind);
  if (!fields.has(row->part)) {
    return refuse(fields, row->part, concat("is missing for a source of kind ", row->name));
  }
  for (const KindRow& other : kKinds) {
    if (other.kind != kind && fields.has(other.part)) {
      return refuse(fields, other.part, concat("does not belong to kind ", row->name));
    }
  }
  CredentialSpec out{.kind = kind, .values = {}};
  TRY_DO(read_part(fields, *row, out.values));
  TRY_DO(pack_values(out.values));  // it is not too large
  return out;
}

Result<> check_source_name(std::string_view name) {
  const bool good = !name.empty() && name.size() <= kMaxSourceNameBytes && is_utf8(name) &&
                    std::ranges::none_of(name, [](char c) {
                      return static_cast<unsigned char>(c) <= ' ' || c == '/' || c == 127;
                    });
  return good ? Result<>{}
              : Result<>{fail(Code::kInvalidArgument,
                              concat("field \"name\": needs 1 to ", kMaxSourceNameBytes,
                                     " bytes without '/' and spaces"))};
}

Result<secrets::Plaintext> pack_values(const SecretValues& values) {
  std::size_t size = 4;
  for (const auto& [name, value] : values) {
    size += 8 + name.size() + value.reveal().size();
  }
  if (values.size() > 2 * kMaxSourceValues || size > kMaxSourceBytes) {
    return fail(Code::kInvalidArgument,
                concat("a credential has at most ", kMaxSourceBytes, " bytes"));
  }
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(values.size()));
  for (const auto& [name, value] : values) {
    writer.string(name).string(value.reveal());
  }
  std::string bytes = std::move(writer).bytes();
  secrets::Plaintext packed{bytes};
  secrets::wipe(bytes);
  return packed;
}

Result<SecretValues> unpack_values(const secrets::Plaintext& packed) {
  ByteReader reader{packed.reveal()};
  SecretValues values;
  const std::uint32_t count = reader.count(8);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string name = reader.string();
    values.insert_or_assign(std::move(name), secrets::Plaintext{reader.view()});
  }
  TRY_DO(reader.finish());
  return values;
}

SecretValues copy_values(const SecretValues& values) {
  SecretValues copy;
  for (const auto& [name, value] : values) {
    copy.emplace(name, value.copy());
  }
  return copy;
}

void wipe_json(Json& json) {
  if (auto* const members = json.as_object(); members != nullptr) {
    for (auto& [name, value] : *members) {
      wipe_json(value);
    }
  } else if (auto* const elements = json.as_array(); elements != nullptr) {
    for (Json& element : *elements) {
      wipe_json(element);
    }
  } else if (const auto* const text = json.as_string(); text != nullptr) {
    secrets::wipe(const_cast<std::string&>(*text));  // ours: the tree is not const
  }
}

}  // namespace atl::control
