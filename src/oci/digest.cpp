#include "oci/digest.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"

namespace atl::oci {

struct Sha256::Impl {
  EVP_MD_CTX* context = ::EVP_MD_CTX_new();
  ~Impl() { ::EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  CHECK(impl_->context != nullptr);
  CHECK(::EVP_DigestInit_ex(impl_->context, ::EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;

void Sha256::update(std::string_view bytes) {
  CHECK(::EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex_digest() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  CHECK(::EVP_DigestFinal_ex(impl_->context, digest, &size) == 1);
  return hex({reinterpret_cast<const char*>(digest), size});
}

std::string_view sha256_digits(std::string_view digest) {
  constexpr std::string_view kPrefix = "sha256:";
  if (!digest.starts_with(kPrefix) || digest.size() != kPrefix.size() + 64) {
    return {};
  }
  digest.remove_prefix(kPrefix.size());
  const bool good = std::ranges::all_of(
      digest, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return good ? digest : std::string_view{};
}

}  // namespace atl::oci
