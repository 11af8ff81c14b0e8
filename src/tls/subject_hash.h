// The number by which OpenSSL names the file of an authority in a directory of certificates.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::tls {

// 8 hexadecimal digits, of the first certificate.
Result<std::string> subject_hash(std::string_view certificate_pem);

}  // namespace atl::tls
