#include "secrets/keyring.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "base/strings.h"

namespace atl::secrets {
namespace {

constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kKeyIdDigits = 8;
constexpr std::string_view kVersion = "v1";

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { ::EVP_CIPHER_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Empty when the line is not a key.
std::string key_of_line(std::string_view line) {
  std::string key;
  if (line.size() != 2 * kKeyBytes) {
    return key;
  }
  for (std::size_t i = 0; i < line.size(); i += 2) {
    const int high = hex_digit(line[i]);
    const int low = hex_digit(line[i + 1]);
    if (high < 0 || low < 0) {
      wipe(key);
      return key;
    }
    key += static_cast<char>(high * 16 + low);
  }
  return key;
}

std::string associated_data(std::string_view key_id, std::string_view bound_to) {
  return concat(kVersion, ".", key_id, ".", bound_to);
}

struct SealedParts {
  std::string_view key_id;
  std::string bytes;  // nonce, ciphertext, tag
};

Result<SealedParts> split_sealed(std::string_view sealed) {
  const auto parts = split(sealed, '.');
  if (parts.size() == 3 && parts[0] == kVersion && parts[1].size() == kKeyIdDigits &&
      parts[2].size() <= 2 * kMaxSecretBytes) {
    if (auto bytes = base64_decode(parts[2]); bytes && bytes->size() >= kNonceBytes + kTagBytes) {
      return SealedParts{parts[1], *std::move(bytes)};
    }
  }
  return fail(Code::kDataLoss,
              "a stored secret is not in the form it was sealed in; enter the secret again",
              "secret_unreadable");
}

}  // namespace

Result<Keyring> Keyring::parse(std::string_view text) {
  std::vector<Key> keys;
  std::size_t number = 0;
  for (const auto line : split(text, '\n')) {
    ++number;
    const auto word = trim(line);
    if (word.empty() || word.starts_with('#')) {
      continue;
    }
    std::string key = key_of_line(word);
    if (key.empty() || keys.size() == kMaxKeys) {
      return fail(Code::kDataLoss,
                  key.empty() ? concat("line ", number, " is not a key of ", 2 * kKeyBytes,
                                       " hex digits; make one with: openssl rand -hex 32")
                              : concat("more than ", kMaxKeys, " keys; remove the oldest"));
    }
    keys.push_back({hex(sha256(key)).substr(0, kKeyIdDigits), Plaintext{key}});
    wipe(key);
  }
  if (keys.empty()) {
    return fail(Code::kDataLoss, "no key in it; put in the one that sealed what is stored");
  }
  return Keyring{std::move(keys)};
}

std::string Keyring::make_key_line() {
  return concat(hex(random_bytes(kKeyBytes)), "\n");
}

Result<std::string> Keyring::seal(const Plaintext& secret, std::string_view bound_to) const {
  if (secret.reveal().size() > kMaxSecretBytes) {
    return fail(Code::kInvalidArgument,
                concat("a secret is longer than ", kMaxSecretBytes, " bytes; use a shorter one"));
  }
  const Key& key = keys_.front();
  const auto plain = secret.reveal();
  const auto bound = associated_data(key.id, bound_to);
  std::string sealed = random_bytes(kNonceBytes);
  sealed.resize(kNonceBytes + plain.size() + kTagBytes);
  unsigned char* out = bytes_of(sealed) + kNonceBytes;
  const ContextPtr context{::EVP_CIPHER_CTX_new()};
  int done = 0;
  const bool good = context != nullptr &&
                    ::EVP_EncryptInit_ex(context.get(), ::EVP_aes_256_gcm(), nullptr,
                                         bytes_of(key.bytes.reveal()), bytes_of(sealed)) == 1 &&
                    ::EVP_EncryptUpdate(context.get(), nullptr, &done, bytes_of(bound),
                                        static_cast<int>(bound.size())) == 1 &&
                    ::EVP_EncryptUpdate(context.get(), out, &done, bytes_of(plain),
                                        static_cast<int>(plain.size())) == 1 &&
                    ::EVP_EncryptFinal_ex(context.get(), out + plain.size(), &done) == 1 &&
                    ::EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                                          out + plain.size()) == 1;
  if (!good) {
    return fail(Code::kInternal, "sealing a secret failed inside OpenSSL");
  }
  return concat(kVersion, ".", key.id, ".", base64_encode(sealed));
}

Result<Plaintext> Keyring::open(std::string_view sealed, std::string_view bound_to) const {
  TRY(SealedParts parts, split_sealed(sealed));
  const auto key = std::ranges::find(keys_, parts.key_id, &Key::id);
  if (key == keys_.end()) {
    return fail(Code::kDataLoss,
                concat("a stored secret was sealed with the key ", parts.key_id,
                       ", which the key file does not have; put that key back into the file and "
                       "restart, or enter the secret again"),
                "secret_key_missing");
  }
  const auto bound = associated_data(parts.key_id, bound_to);
  const std::size_t size = parts.bytes.size() - kNonceBytes - kTagBytes;
  unsigned char* in = bytes_of(parts.bytes) + kNonceBytes;
  std::string plain(size, '\0');
  const ContextPtr context{::EVP_CIPHER_CTX_new()};
  int done = 0;
  unsigned char rest[kTagBytes];
  const bool good =
      context != nullptr &&
      ::EVP_DecryptInit_ex(context.get(), ::EVP_aes_256_gcm(), nullptr,
                           bytes_of(key->bytes.reveal()), bytes_of(parts.bytes)) == 1 &&
      ::EVP_DecryptUpdate(context.get(), nullptr, &done, bytes_of(bound),
                          static_cast<int>(bound.size())) == 1 &&
      ::EVP_DecryptUpdate(context.get(), bytes_of(plain), &done, in, static_cast<int>(size)) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, in + size) == 1 &&
      ::EVP_DecryptFinal_ex(context.get(), rest, &done) == 1;
  Plaintext secret = good ? Plaintext{plain} : Plaintext{};
  wipe(plain);
  if (!good) {
    return fail(Code::kDataLoss,
                "a stored secret was changed or belongs to another row; enter the secret again",
                "secret_unreadable");
  }
  return secret;
}

bool Keyring::is_current(std::string_view sealed) const {
  const auto parts = split(sealed, '.');
  return parts.size() == 3 && parts[0] == kVersion && parts[1] == keys_.front().id;
}

}  // namespace atl::secrets
