// Names of images: what is accepted is its own normal form and safe as an argument.
#include "fuzz.h"
#include "oci/digest.h"
#include "oci/fetch.h"

namespace atl::fuzz {

void image_reference(std::string_view input) {
  const auto reference = oci::check_reference(input);
  if (reference) {
    CHECK(oci::check_reference(*reference) == *reference);
    CHECK(!reference->empty() && reference->front() != '-' && reference->front() != '/');
    for (const char c : *reference) {
      CHECK(c > ' ' && c < 0x7f);
    }
  }
  const auto registry = oci::registry_of(input);
  CHECK(!registry.empty() || input.starts_with('/'));
  (void)oci::is_loopback_registry(registry);
  (void)oci::is_loopback_registry(input);
  CHECK(oci::sha256_digits(input).empty() || oci::sha256_digits(input).size() == 64);
}

Seeds image_reference_seeds() {
  return {"alpine",
          "docker://docker.io/library/alpine:3.20",
          "registry.example:5000/team/app:1.2",
          "app@sha256:" + std::string(64, 'a'),
          "sha256:" + std::string(64, '0'),
          "127.0.0.1:5000/x",
          "[::1]:5000/x",
          "localhost/x",
          "-x",
          "a//b",
          "a b",
          "docker://docker://x",
          "127.0.0.256/x"};
}

}  // namespace atl::fuzz
