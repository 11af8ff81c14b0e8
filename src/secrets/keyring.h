// Sealing: AES-256-GCM under the newest key of a ring, opened with whichever key sealed it.
//
// A sealed secret is text: "v1.<key id>.<base64 of nonce, ciphertext and tag>". The associated data
// are the version, the key id and what the secret is bound to, for example "volume/<id>/s3": the
// sealed text of one row does not open in another. Nonces are random; a key is good for 2^32 seals.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "secrets/plaintext.h"

namespace atl::secrets {

inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kMaxKeys = 64;
inline constexpr std::size_t kMaxSecretBytes = std::size_t{64} * 1024;
inline constexpr std::size_t kMaxKeyFileBytes = std::size_t{16} * 1024;

class Keyring {
 public:
  // The text of a key file: 64 hex digits a line, newest first; empty lines and # lines are
  // skipped.
  static Result<Keyring> parse(std::string_view text);
  // A line for a key file.
  static std::string make_key_line();

  Result<std::string> seal(const Plaintext& secret, std::string_view bound_to) const;
  // kDataLoss when it was changed, moved, or sealed with a key that is not on the ring.
  Result<Plaintext> open(std::string_view sealed, std::string_view bound_to) const;
  // Whether the newest key sealed it; if not, its owner should seal it again.
  bool is_current(std::string_view sealed) const;

 private:
  struct Key {
    std::string id;
    Plaintext bytes;
  };
  explicit Keyring(std::vector<Key> keys) : keys_(std::move(keys)) {}
  std::vector<Key> keys_;  // at least one
};

}  // namespace atl::secrets
