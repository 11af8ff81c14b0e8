#include "secrets/plaintext.h"

#include <cstring>

namespace atl::secrets {

Plaintext::Plaintext(std::string_view bytes)
    : bytes_(std::make_unique<char[]>(bytes.size())), size_(bytes.size()) {
  bytes.copy(bytes_.get(), bytes.size());
}

Plaintext& Plaintext::operator=(Plaintext&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(size_, other.size_);
  return *this;
}

Plaintext::~Plaintext() {
  if (bytes_ != nullptr) {
    ::explicit_bzero(bytes_.get(), size_);
  }
}

void wipe(std::string& bytes) {
  bytes.resize(bytes.capacity());
  ::explicit_bzero(bytes.data(), bytes.size());
  bytes.clear();
}

}  // namespace atl::secrets
