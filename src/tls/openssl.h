// Private to this room: owners of OpenSSL objects and its error queue as an Error.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "base/strings.h"

namespace atl::tls {

template <auto Free>
struct OpensslFree {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using SslContextPtr = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, OpensslFree<SSL_free>>;
using X509Ptr = std::unique_ptr<X509, OpensslFree<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, OpensslFree<BIO_free_all>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, OpensslFree<X509_EXTENSION_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, OpensslFree<GENERAL_NAMES_free>>;

// Empties the thread's error queue into one message.
inline Error openssl_error(Code code, std::string_view what) {
  std::string reasons;
  while (const unsigned long error = ::ERR_get_error()) {
    const char* reason = ::ERR_reason_error_string(error);
    reasons += concat(reasons.empty() ? "" : ", ", reason != nullptr ? reason : "unknown reason");
  }
  return {code, concat(what, reasons.empty() ? "" : ": ", reasons), "tls"};
}

inline BioPtr memory_bio(std::string_view bytes) {
  return BioPtr{::BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size()))};
}

inline std::string take_bytes(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace atl::tls
