#include "tls/subject_hash.h"

#include <array>

#include "tls/openssl.h"

namespace atl::tls {

Result<std::string> subject_hash(std::string_view certificate_pem) {
  const BioPtr bio = memory_bio(certificate_pem);
  const X509Ptr certificate{::PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)};
  if (!certificate) {
    return fail(openssl_error(Code::kInvalidArgument, "reading a certificate"));
  }
  const unsigned long number = ::X509_subject_name_hash(certificate.get());
  std::array<char, 4> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(number >> (8 * (bytes.size() - 1 - i)));
  }
  return hex({bytes.data(), bytes.size()});
}

}  // namespace atl::tls
