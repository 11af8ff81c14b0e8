// SHA-256 over bytes that come in pieces.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace atl::oci {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);
  // Once, at the end: 64 lower-case digits.
  std::string hex_digest();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "sha256:<64 digits>" -> the digits; empty when it is anything else.
std::string_view sha256_digits(std::string_view digest);

}  // namespace atl::oci
