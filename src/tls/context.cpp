#include "tls/context.h"

#include "base/fd.h"
#include "tls/context_impl.h"

namespace atl::tls {
namespace {

// Length-prefixed names, as ALPN wants them.
Result<std::string> wire_protocols(const std::vector<std::string>& protocols) {
  std::string wire;
  for (const auto& protocol : protocols) {
    if (protocol.empty() || protocol.size() > 255) {
      return fail(Code::kInvalidArgument, "a protocol name has 1 to 255 bytes");
    }
    wire += static_cast<char>(protocol.size());
    wire += protocol;
  }
  return wire;
}

// A client that offers only what we do not speak goes on without ALPN, as HTTP/1.1 clients expect.
int select_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int offered_size, void* argument) {
  const auto& context = *static_cast<const Context::Impl*>(argument);
  const std::string& ours = context.protocols;
  unsigned char* selected = nullptr;
  const int outcome = ::SSL_select_next_proto(
      &selected, out_size, reinterpret_cast<const unsigned char*>(ours.data()),
      static_cast<unsigned>(ours.size()), offered, offered_size);
  *out = selected;
  if (outcome == OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_OK;
  }
  return context.insists ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_NOACK;
}

Result<SslContextPtr> make_context(const SSL_METHOD* method) {
  SslContextPtr context{::SSL_CTX_new(method)};
  if (!context || ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1) {
    return fail(openssl_error(Code::kInternal, "setting up TLS"));
  }
  ::SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                           SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Tickets carry their sessions with them; a cache would hold thousands for every context.
  ::SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  return context;
}

Result<> use_identity(SSL_CTX* context, const Identity& identity) {
  const BioPtr chain = memory_bio(identity.certificate_pem);
  const X509Ptr leaf{::PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr)};
  if (!leaf || ::SSL_CTX_use_certificate(context, leaf.get()) != 1) {
    return fail(openssl_error(Code::kInvalidArgument, "the certificate is not usable PEM"));
  }
  while (X509* next = ::PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr)) {
    if (::SSL_CTX_add0_chain_cert(context, next) != 1) {
      ::X509_free(next);
      return fail(openssl_error(Code::kInvalidArgument, "an intermediate certificate is unusable"));
    }
  }
  ::ERR_clear_error();  // the end of the PEM data is reported as an error
  const BioPtr key_bio = memory_bio(identity.key_pem);
  const KeyPtr key{::PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr)};
  if (!key) {
    return fail(openssl_error(Code::kInvalidArgument, "the private key is not usable PEM"));
  }
  if (::SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      ::SSL_CTX_check_private_key(context) != 1) {
    return fail(openssl_error(Code::kInvalidArgument,
                              "the private key does not belong to the certificate"));
  }
  return {};
}

Result<> trust(SSL_CTX* context, const std::string& pem) {
  if (pem.empty()) {
    if (::SSL_CTX_set_default_verify_paths(context) != 1) {
      return fail(openssl_error(Code::kInternal, "loading the host's trusted certificates"));
    }
    return {};
  }
  const BioPtr bio = memory_bio(pem);
  std::size_t count = 0;
  for (;;) {
    const X509Ptr certificate{::PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)};
    if (!certificate) {
      break;
    }
    ::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context), certificate.get());
    ++count;
  }
  ::ERR_clear_error();
  if (count == 0) {
    return fail(Code::kInvalidArgument, "the trusted certificates contain no PEM certificate");
  }
  return {};
}

}  // namespace

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::~Context() = default;

Result<std::unique_ptr<Context>> Context::server(const ServerOptions& options) {
  auto impl = std::make_unique<Impl>();
  TRY(impl->context, make_context(::TLS_server_method()));
  TRY(impl->protocols, wire_protocols(options.protocols));
  TRY_DO(use_identity(impl->context.get(), options.identity));
  impl->insists = options.insists;
  if (!impl->protocols.empty()) {
    ::SSL_CTX_set_alpn_select_cb(impl->context.get(), select_protocol, impl.get());
  }
  return std::unique_ptr<Context>{new Context{std::move(impl)}};
}

Result<std::unique_ptr<Context>> Context::client(const ClientOptions& options) {
  auto impl = std::make_unique<Impl>();
  TRY(impl->context, make_context(::TLS_client_method()));
  TRY(impl->protocols, wire_protocols(options.protocols));
  TRY_DO(trust(impl->context.get(), options.trusted_pem));
  if (!options.identity.certificate_pem.empty()) {
    TRY_DO(use_identity(impl->context.get(), options.identity));
  }
  ::SSL_CTX_set_verify(impl->context.get(), options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
                       nullptr);
  if (!impl->protocols.empty()) {
    ::SSL_CTX_set_alpn_protos(impl->context.get(),
                              reinterpret_cast<const unsigned char*>(impl->protocols.data()),
                              static_cast<unsigned>(impl->protocols.size()));
  }
  return std::unique_ptr<Context>{new Context{std::move(impl)}};
}

Result<Identity> read_identity(const std::string& certificate_file, const std::string& key_file) {
  Identity identity;
  TRY(identity.certificate_pem, read_file(certificate_file));
  TRY(identity.key_pem, read_file(key_file));
  ServerOptions options{.identity = identity, .protocols = {}};
  auto checked = Context::server(options);
  if (!checked) {
    return fail(std::move(checked.error()).note(concat(certificate_file, " and ", key_file)));
  }
  return identity;
}

}  // namespace atl::tls
