// Public keys as people paste them: "ssh-ed25519 AAAA... comment".
//
// Sans-IO and strict: the blob must be exactly what its type says, to the last byte, and strong
// enough for today. Keys are compared by their blob.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::ssh {

inline constexpr std::size_t kMaxPublicKeyLineBytes = std::size_t{16} * 1024;

struct PublicKey {
  std::string type;  // "ssh-ed25519"
  std::string blob;  // the decoded middle word
  std::string comment;
  bool operator==(const PublicKey&) const = default;
};

// One line, without options in front of it. kInvalidArgument says what is wrong with it.
Result<PublicKey> parse_public_key(std::string_view line);
// The same for a blob that came without its line.
Result<PublicKey> parse_public_key_blob(std::string_view blob);
// "ssh-ed25519 AAAA...", without the comment.
std::string format_public_key(const PublicKey& key);
// "SHA256:..." as ssh-keygen -l prints it.
std::string fingerprint_sha256(std::string_view blob);

}  // namespace atl::ssh
