// Private keys as text (OpenSSH's or PEM). The text is the caller's to wipe.
#pragma once

#include <string>

#include "ssh/public_key.h"

namespace atl::ssh {

// A new Ed25519 key, for a server.
Result<std::string> make_host_key();
// The same for the same secret, which must have at least 32 bytes that nobody can guess; `purpose`
// keeps keys of one secret apart.
Result<std::string> derive_host_key(std::string_view secret, std::string_view purpose);
// The public half; kInvalidArgument when the text or its passphrase is wrong. Never repeats either.
Result<PublicKey> public_half(const std::string& private_key, const std::string& passphrase);

}  // namespace atl::ssh
