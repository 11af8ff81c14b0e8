#include "base/random.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/strings.h"

namespace atl {

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t done = 0;
  while (done < count) {
    const auto got = ::getrandom(bytes.data() + done, count - done, 0);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    }
    CHECK(got > 0 || errno == EINTR);
  }
  return bytes;
}

std::string random_hex(std::size_t digits) {
  return hex(random_bytes((digits + 1) / 2)).substr(0, digits);
}

std::string random_label(std::size_t characters) {
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";  // 32: no modulo bias
  std::string label = random_bytes(characters);
  for (std::size_t i = 0; i < label.size(); ++i) {
    const auto value = static_cast<unsigned char>(label[i]);
    label[i] = kAlphabet[i == 0 ? value & 15U : value & 31U];
  }
  return label;
}

std::string sha256(std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

bool equal_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace atl
