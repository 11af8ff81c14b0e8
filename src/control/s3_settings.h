// What the row of a volume in a bucket says: where it is, and the sealed credentials.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "s3/room.h"
#include "secrets/keyring.h"

namespace atl::control {

inline constexpr std::string_view kS3Backend = "s3";

struct S3Settings {
  s3::Location location;
  std::string prefix;  // of all keys: empty, or with a slash at its end
  std::string sealed;  // credentials; never shown
};

Result<S3Settings> parse_s3_settings(std::string_view json);
std::string s3_settings_json(const S3Settings& settings);
// "/a//b" -> "a/b/"; refuses what no path could mean.
Result<std::string> clean_s3_prefix(std::string_view prefix);

// As VolumeCreate::secret carries them.
secrets::Plaintext pack_credentials(const s3::Credentials& credentials);
Result<s3::Credentials> unpack_credentials(const secrets::Plaintext& packed);

// Credentials between their own form and a sealed text that is bound to one volume.
Result<std::string> seal_credentials(const secrets::Keyring& keyring, std::string_view volume_id,
                                     const s3::Credentials& credentials);
Result<s3::Credentials> open_credentials(const secrets::Keyring& keyring,
                                         std::string_view volume_id, std::string_view sealed);

}  // namespace atl::control
