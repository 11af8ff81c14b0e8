#include "control/s3_settings.h"

#include "base/bytes.h"
#include "base/json_fields.h"
#include "base/strings.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxPrefixBytes = 512;

std::string bound_to(std::string_view volume_id) {
  return concat("volume/", volume_id, "/s3");
}

}  // namespace

Result<S3Settings> parse_s3_settings(std::string_view json) {
  TRY(const Json body, Json::parse(json));
  TRY(const auto fields,
      Fields::of(body, "settings",
                 {"provider", "bucket", "prefix", "region", "endpoint_url", "sealed"}));
  S3Settings settings;
  TRY(settings.location.provider, fields.required_string("provider"));
  TRY(settings.location.bucket, fields.required_string("bucket"));
  TRY(const auto prefix, fields.string("prefix"));
  TRY(const auto region, fields.string("region"));
  TRY(const auto endpoint, fields.string("endpoint_url"));
  TRY(const auto sealed, fields.string("sealed"));
  settings.prefix = prefix.value_or("");
  settings.location.region = region.value_or("");
  settings.location.endpoint_url = endpoint.value_or("");
  settings.sealed = sealed.value_or("");
  return settings;
}

std::string s3_settings_json(const S3Settings& settings) {
  return Json::object({{"provider", settings.location.provider},
                       {"bucket", settings.location.bucket},
                       {"prefix", settings.prefix},
                       {"region", settings.location.region},
                       {"endpoint_url", settings.location.endpoint_url},
                       {"sealed", settings.sealed}})
      .dump();
}

Result<std::string> clean_s3_prefix(std::string_view prefix) {
  std::string clean;
  for (const auto part : split(prefix, '/')) {
    if (part == "." || part == "..") {
      return fail(Code::kInvalidArgument, "s3.prefix must not have \".\" or \"..\" in it");
    }
    if (!part.empty()) {
      clean += concat(part, "/");
    }
  }
  if (clean.size() > kMaxPrefixBytes || !is_utf8(clean) || clean.contains('\0')) {
    return fail(Code::kInvalidArgument,
                concat("s3.prefix is text of at most ", kMaxPrefixBytes, " bytes"));
  }
  return clean;
}

secrets::Plaintext pack_credentials(const s3::Credentials& credentials) {
  ByteWriter writer;
  writer.string(credentials.access_key.reveal())
      .string(credentials.secret_key.reveal())
      .string(credentials.session_token.reveal());
  std::string bytes = std::move(writer).bytes();
  secrets::Plaintext packed{bytes};
  secrets::wipe(bytes);
  return packed;
}

Result<s3::Credentials> unpack_credentials(const secrets::Plaintext& packed) {
  ByteReader reader{packed.reveal()};
  s3::Credentials credentials;
  credentials.access_key = secrets::Plaintext{reader.view()};
  credentials.secret_key = secrets::Plaintext{reader.view()};
  credentials.session_token = secrets::Plaintext{reader.view()};
  TRY_DO(reader.finish());
  return credentials;
}

Result<std::string> seal_credentials(const secrets::Keyring& keyring, std::string_view volume_id,
                                     const s3::Credentials& credentials) {
  return keyring.seal(pack_credentials(credentials), bound_to(volume_id));
}

Result<s3::Credentials> open_credentials(const secrets::Keyring& keyring,
                                         std::string_view volume_id, std::string_view sealed) {
  TRY(const secrets::Plaintext packed, keyring.open(sealed, bound_to(volume_id)));
  return unpack_credentials(packed);
}

}  // namespace atl::control
