#include "tls/mint.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/rand.h>

#include "tls/openssl.h"

namespace atl::tls {
namespace {

constexpr long kSecondsPerDay = 24 * 60 * 60;

std::string to_pem(X509* certificate) {
  const BioPtr bio{::BIO_new(::BIO_s_mem())};
  ::PEM_write_bio_X509(bio.get(), certificate);
  return take_bytes(bio.get());
}

std::string to_pem(EVP_PKEY* key) {
  const BioPtr bio{::BIO_new(::BIO_s_mem())};
  ::PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return take_bytes(bio.get());
}

Result<> add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension{::X509V3_EXT_conf_nid(nullptr, &context, nid, value)};
  if (!extension || ::X509_add_ext(certificate, extension.get(), -1) != 1) {
    return fail(openssl_error(Code::kInternal, "adding a certificate extension"));
  }
  return {};
}

struct Draft {
  X509Ptr certificate;
  KeyPtr key;
};

Result<Draft> make_draft(const std::string& common_name, int valid_days) {
  Draft draft{X509Ptr{::X509_new()}, KeyPtr{EVP_EC_gen("P-256")}};
  if (!draft.certificate || !draft.key) {
    return fail(openssl_error(Code::kInternal, "making a key"));
  }
  X509* certificate = draft.certificate.get();
  std::uint64_t serial = 0;
  ::RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ::X509_set_version(certificate, X509_VERSION_3);
  ::ASN1_INTEGER_set_uint64(::X509_get_serialNumber(certificate), serial >> 1);
  // An hour back: clocks of sandboxes and clients differ.
  ::X509_gmtime_adj(::X509_getm_notBefore(certificate), -3600);
  ::X509_gmtime_adj(::X509_getm_notAfter(certificate), kSecondsPerDay * valid_days);
  ::X509_set_pubkey(certificate, draft.key.get());
  if (common_name.empty()) {
    return draft;
  }
  // 64 bytes is the longest common name; the full one is among the alternative names.
  const std::string name = common_name.substr(0, 64);
  ::X509_NAME_add_entry_by_txt(::X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.data()),
                               static_cast<int>(name.size()), -1, 0);
  return draft;
}

// Critical when they are all the identity there is (RFC 5280, 4.2.1.6).
Result<> add_alternative_names(X509* certificate, const std::vector<std::string>& names,
                               bool critical) {
  const NamesPtr list{sk_GENERAL_NAME_new_null()};
  for (const auto& name : names) {
    const bool is_ip = name.find(':') != std::string::npos ||
                       name.find_first_not_of("0123456789.") == std::string::npos;
    GENERAL_NAME* entry = ::GENERAL_NAME_new();
    if (is_ip) {
      ASN1_OCTET_STRING* address = ::a2i_IPADDRESS(name.c_str());
      if (address == nullptr) {
        ::GENERAL_NAME_free(entry);
        return fail(Code::kInvalidArgument, concat("\"", name, "\" is not an IP address"));
      }
      ::GENERAL_NAME_set0_value(entry, GEN_IPADD, address);
    } else {
      ASN1_IA5STRING* text = ::ASN1_IA5STRING_new();
      ::ASN1_STRING_set(text, name.data(), static_cast<int>(name.size()));
      ::GENERAL_NAME_set0_value(entry, GEN_DNS, text);
    }
    sk_GENERAL_NAME_push(list.get(), entry);
  }
  if (::X509_add1_ext_i2d(certificate, NID_subject_alt_name, list.get(), critical ? 1 : 0, 0) !=
      1) {
    return fail(openssl_error(Code::kInternal, "adding names to a certificate"));
  }
  return {};
}

Result<> sign(X509* certificate, X509* issuer, EVP_PKEY* key) {
  ::X509_set_issuer_name(certificate, ::X509_get_subject_name(issuer));
  if (::X509_sign(certificate, key, ::EVP_sha256()) == 0) {
    return fail(openssl_error(Code::kInternal, "signing a certificate"));
  }
  return {};
}

bool is_dns_name(std::string_view name) {
  return !name.empty() && name.size() <= 253 &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
             "-._*:") == std::string_view::npos;
}

}  // namespace

Result<Identity> mint_authority(const AuthorityOptions& options) {
  TRY(const Draft draft, make_draft(options.common_name, options.valid_days));
  X509* certificate = draft.certificate.get();
  TRY_DO(
      add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  TRY_DO(add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign"));
  TRY_DO(add_extension(certificate, certificate, NID_subject_key_identifier, "hash"));
  TRY_DO(sign(certificate, certificate, draft.key.get()));
  return Identity{to_pem(certificate), to_pem(draft.key.get())};
}

Result<Identity> mint_leaf(const Identity& authority, const LeafOptions& options) {
  if (options.names.empty()) {
    return fail(Code::kInvalidArgument, "a certificate needs at least one name");
  }
  for (const auto& name : options.names) {
    if (!is_dns_name(name)) {
      return fail(Code::kInvalidArgument, concat("\"", name, "\" is no host name or address"));
    }
  }
  const BioPtr issuer_bio = memory_bio(authority.certificate_pem);
  const BioPtr key_bio = memory_bio(authority.key_pem);
  const X509Ptr issuer{::PEM_read_bio_X509(issuer_bio.get(), nullptr, nullptr, nullptr)};
  const KeyPtr issuer_key{::PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr)};
  if (!issuer || !issuer_key) {
    return fail(openssl_error(Code::kInvalidArgument, "the authority is not usable PEM"));
  }
  TRY(const Draft draft,
      make_draft(options.without_subject ? std::string{} : options.names[0], options.valid_days));
  X509* certificate = draft.certificate.get();
  TRY_DO(add_extension(certificate, issuer.get(), NID_basic_constraints, "critical,CA:FALSE"));
  TRY_DO(add_extension(certificate, issuer.get(), NID_key_usage, "critical,digitalSignature"));
  TRY_DO(add_extension(certificate, issuer.get(), NID_ext_key_usage, "serverAuth"));
  TRY_DO(add_extension(certificate, issuer.get(), NID_authority_key_identifier, "keyid:always"));
  TRY_DO(add_alternative_names(certificate, options.names, options.without_subject));
  TRY_DO(sign(certificate, issuer.get(), issuer_key.get()));
  return Identity{to_pem(certificate) + authority.certificate_pem, to_pem(draft.key.get())};
}

}  // namespace atl::tls
