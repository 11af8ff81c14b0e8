// A key store of Java made from a bundle of certificates. Java reads no PEM, and its own tool takes
// a second to start; the old format that every Java reads (JKS) is easily written.
#pragma once

#include <string>
#include <string_view>

namespace atl::guest {

// Every certificate of the bundle that can be decoded; the password is the customary "changeit".
std::string java_key_store(std::string_view pem_bundle);

// Exposed for its test.
std::string sha1(std::string_view bytes);  // 20 raw bytes

}  // namespace atl::guest
