#include "ssh/private_key.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/strings.h"
#include "ssh/libssh_impl.h"

namespace atl::ssh {
namespace {

// Without this libssh would ask on a terminal.
int no_passphrase(const char*, char*, std::size_t, int, int, void*) {
  return -1;
}

constexpr std::size_t kSeedBytes = 32;
constexpr std::string_view kKeyType = "ssh-ed25519";

void put_number(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> static_cast<unsigned>(shift)));
  }
}

void put_string(std::string& out, std::string_view text) {
  put_number(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

Result<std::string> ed25519_public(std::string_view seed) {
  EVP_PKEY* key = ::EVP_PKEY_new_raw_private_key(
      EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(seed.data()), seed.size());
  std::string bytes(kSeedBytes, '\0');
  std::size_t size = bytes.size();
  const bool made =
      key != nullptr && ::EVP_PKEY_get_raw_public_key(
                            key, reinterpret_cast<unsigned char*>(bytes.data()), &size) == 1;
  ::EVP_PKEY_free(key);
  if (!made || size != bytes.size()) {
    return fail(Code::kInternal, "deriving an SSH host key failed");
  }
  return bytes;
}

// The file format of OpenSSH's private keys (PROTOCOL.key), without encryption.
std::string openssh_text(std::string_view seed, std::string_view public_bytes) {
  std::string blob;
  put_string(blob, kKeyType);
  put_string(blob, public_bytes);
  std::string secret_part;
  constexpr std::uint32_t kCheck = 0x61746f6c;  // twice the same number, any
  put_number(secret_part, kCheck);
  put_number(secret_part, kCheck);
  put_string(secret_part, kKeyType);
  put_string(secret_part, public_bytes);
  put_string(secret_part, concat(seed, public_bytes));
  put_string(secret_part, "");
  constexpr std::size_t kBlockBytes = 8;
  for (char padding = 1; secret_part.size() % kBlockBytes != 0; ++padding) {
    secret_part.push_back(padding);
  }
  std::string all = "openssh-key-v1";
  all.push_back('\0');
  put_string(all, "none");
  put_string(all, "none");
  put_string(all, "");
  put_number(all, 1);
  put_string(all, blob);
  put_string(all, secret_part);
  std::string text = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
  const std::string encoded = base64_encode(all);
  constexpr std::size_t kLineBytes = 70;
  for (std::size_t at = 0; at < encoded.size(); at += kLineBytes) {
    text += concat(std::string_view{encoded}.substr(at, kLineBytes), "\n");
  }
  return concat(text, "-----END OPENSSH PRIVATE KEY-----\n");
}

}  // namespace

Result<std::string> derive_host_key(std::string_view secret, std::string_view purpose) {
  unsigned char seed[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (secret.size() < kSeedBytes ||
      ::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size(), seed,
             &size) == nullptr ||
      size != kSeedBytes) {
    return fail(Code::kInternal, "deriving an SSH host key failed");
  }
  const std::string_view view{reinterpret_cast<const char*>(seed), kSeedBytes};
  TRY(const std::string public_bytes, ed25519_public(view));
  std::string text = openssh_text(view, public_bytes);
  ::explicit_bzero(seed, sizeof seed);
  return text;
}

Result<KeyHandle> import_private_key(const std::string& text, const std::string& passphrase) {
  ssh_key key = nullptr;
  const int outcome = ::ssh_pki_import_privkey_base64(
      text.c_str(), passphrase.empty() ? nullptr : passphrase.c_str(), no_passphrase, nullptr,
      &key);
  KeyHandle handle{key};
  if (outcome != SSH_OK || !handle) {
    return fail(Code::kInvalidArgument,
                "the SSH private key cannot be read; it must be in OpenSSH or PEM form, with the "
                "right passphrase if it has one");
  }
  return handle;
}

Result<std::string> key_blob(ssh_key key) {
  char* text = nullptr;
  if (::ssh_pki_export_pubkey_base64(key, &text) != SSH_OK || text == nullptr) {
    return fail(Code::kInvalidArgument, "a public key cannot be read");
  }
  auto blob = base64_decode(text);
  ::ssh_string_free_char(text);
  if (!blob) {
    return fail(Code::kInvalidArgument, "a public key cannot be read");
  }
  return *std::move(blob);
}

std::string last_error(void* session_or_bind) {
  std::string text;
  append_printable(text, ::ssh_get_error(session_or_bind));
  return text.empty() ? "the connection ended" : text;
}

Result<std::string> make_host_key() {
  ssh_key key = nullptr;
  if (::ssh_pki_generate(SSH_KEYTYPE_ED25519, 0, &key) != SSH_OK) {
    return fail(Code::kInternal, "making an SSH host key failed");
  }
  const KeyHandle handle{key};
  char* text = nullptr;
  if (::ssh_pki_export_privkey_base64(key, nullptr, nullptr, nullptr, &text) != SSH_OK ||
      text == nullptr) {
    return fail(Code::kInternal, "writing an SSH host key failed");
  }
  std::string pem{text};
  ::explicit_bzero(text, std::strlen(text));
  ::ssh_string_free_char(text);
  return pem;
}

Result<PublicKey> public_half(const std::string& private_key, const std::string& passphrase) {
  TRY(const KeyHandle key, import_private_key(private_key, passphrase));
  TRY(const std::string blob, key_blob(key.get()));
  return parse_public_key_blob(blob);
}

}  // namespace atl::ssh
