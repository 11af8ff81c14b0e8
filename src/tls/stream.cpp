#include "tls/stream.h"

#include <arpa/inet.h>

#include "tls/context_impl.h"

namespace atl::tls {
namespace {

constexpr std::size_t kTransferBytes = 32 * 1024;

bool is_address(const std::string& host) {
  unsigned char ignored[16];
  return ::inet_pton(AF_INET, host.c_str(), ignored) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), ignored) == 1;
}

}  // namespace

struct TlsStream::Impl {
  std::unique_ptr<io::Stream> below;
  SslPtr ssl;
  BIO* incoming = nullptr;  // owned by ssl: ciphertext from the peer
  BIO* outgoing = nullptr;  // owned by ssl: ciphertext for the peer
  std::string protocol;
  std::vector<char> buffer = std::vector<char>(kTransferBytes);
  bool flushing = false;
  Event flushed;
};

TlsStream::TlsStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsStream::~TlsStream() = default;
const std::string& TlsStream::protocol() const {
  return impl_->protocol;
}
io::Stream& TlsStream::below() {
  return *impl_->below;
}

namespace {

Result<SslPtr> make_session(SSL_CTX* context, BIO*& incoming, BIO*& outgoing) {
  SslPtr ssl{::SSL_new(context)};
  incoming = ::BIO_new(::BIO_s_mem());
  outgoing = ::BIO_new(::BIO_s_mem());
  if (!ssl || incoming == nullptr || outgoing == nullptr) {
    ::BIO_free(incoming);
    ::BIO_free(outgoing);
    return fail(openssl_error(Code::kResourceExhausted, "starting a TLS session"));
  }
  ::SSL_set_bio(ssl.get(), incoming, outgoing);
  return ssl;
}

}  // namespace

Task<std::unique_ptr<TlsStream>> TlsStream::accept(std::unique_ptr<io::Stream> below,
                                                   const Context& context) {
  auto impl = std::make_unique<Impl>();
  impl->below = std::move(below);
  CO_TRY(impl->ssl, make_session(context.impl_->context.get(), impl->incoming, impl->outgoing));
  ::SSL_set_accept_state(impl->ssl.get());
  std::unique_ptr<TlsStream> stream{new TlsStream{std::move(impl)}};
  CO_TRY_DO(co_await stream->handshake());
  co_return std::move(stream);
}

Task<std::unique_ptr<TlsStream>> TlsStream::connect(std::unique_ptr<io::Stream> below,
                                                    const Context& context, std::string host) {
  auto impl = std::make_unique<Impl>();
  impl->below = std::move(below);
  CO_TRY(impl->ssl, make_session(context.impl_->context.get(), impl->incoming, impl->outgoing));
  SSL* ssl = impl->ssl.get();
  ::SSL_set_connect_state(ssl);
  const bool address = is_address(host);
  const int named = address ? ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl), host.c_str())
                            : ::SSL_set1_host(ssl, host.c_str());
  if (named != 1 || (!address && ::SSL_set_tlsext_host_name(ssl, host.c_str()) != 1)) {
    co_return fail(openssl_error(Code::kInvalidArgument, concat("\"", host, "\" is no host name")));
  }
  std::unique_ptr<TlsStream> stream{new TlsStream{std::move(impl)}};
  CO_TRY_DO(co_await stream->handshake());
  co_return std::move(stream);
}

Task<> TlsStream::handshake() {
  for (;;) {
    ::ERR_clear_error();
    const int outcome = ::SSL_do_handshake(impl_->ssl.get());
    const int reason = ::SSL_get_error(impl_->ssl.get(), outcome);
    Error failure;
    if (outcome != 1 && reason != SSL_ERROR_WANT_READ) {
      failure = openssl_error(Code::kUnavailable, "TLS handshake failed");
      const long verdict = ::SSL_get_verify_result(impl_->ssl.get());
      if (verdict != X509_V_OK) {
        failure.message += concat(" (", ::X509_verify_cert_error_string(verdict), ")");
      }
    }
    // Also when it failed: the alert tells the peer why.
    auto sent = co_await flush();
    if (!failure.message.empty()) {
      co_return fail(std::move(failure));
    }
    CO_TRY_DO(std::move(sent));
    if (outcome == 1) {
      break;
    }
    CO_TRY(const bool more, co_await fill());
    if (!more) {
      co_return fail(Code::kUnavailable, "the peer left during the TLS handshake", "tls");
    }
  }
  const unsigned char* name = nullptr;
  unsigned size = 0;
  ::SSL_get0_alpn_selected(impl_->ssl.get(), &name, &size);
  impl_->protocol.assign(reinterpret_cast<const char*>(name), size);
  co_return ok();
}

// One flusher at a time; whoever comes meanwhile waits until it has also taken their bytes along.
Task<> TlsStream::flush() {
  while (impl_->flushing) {
    CO_TRY_DO(co_await impl_->flushed.wait());
  }
  if (BIO_ctrl_pending(impl_->outgoing) == 0) {
    co_return ok();
  }
  impl_->flushing = true;
  impl_->flushed.clear();
  Result<> result;
  while (result && BIO_ctrl_pending(impl_->outgoing) > 0) {
    std::string bytes(std::min(BIO_ctrl_pending(impl_->outgoing), kTransferBytes), '\0');
    const int got = ::BIO_read(impl_->outgoing, bytes.data(), static_cast<int>(bytes.size()));
    CHECK(got == static_cast<int>(bytes.size()));
    result = co_await impl_->below->write(bytes);
  }
  impl_->flushing = false;
  impl_->flushed.set();
  co_return std::move(result);
}

Task<bool> TlsStream::fill() {
  CO_TRY(const auto got, co_await impl_->below->read(impl_->buffer));
  if (got == 0) {
    co_return false;
  }
  CHECK(::BIO_write(impl_->incoming, impl_->buffer.data(), static_cast<int>(got)) ==
        static_cast<int>(got));
  co_return true;
}

Task<std::size_t> TlsStream::read(std::span<char> buffer) {
  for (;;) {
    ::ERR_clear_error();
    std::size_t got = 0;
    const int outcome = ::SSL_read_ex(impl_->ssl.get(), buffer.data(), buffer.size(), &got);
    const int reason = ::SSL_get_error(impl_->ssl.get(), outcome);
    if (outcome == 1) {
      co_return got;
    }
    if (reason == SSL_ERROR_ZERO_RETURN) {
      co_return std::size_t{0};
    }
    if (reason != SSL_ERROR_WANT_READ) {
      co_return fail(openssl_error(Code::kUnavailable, "TLS connection broken"));
    }
    // Answers to key updates. A writer that is flushing takes them along: waiting for it here
    // would be a deadlock when it waits for a peer that waits for us to read.
    if (!impl_->flushing) {
      CO_TRY_DO(co_await flush());
    }
    CO_TRY(const bool more, co_await fill());
    if (!more) {
      // No close_notify: the peer, or somebody in between, cut the stream short.
      co_return fail(Code::kUnavailable, "the TLS connection ended without a goodbye", "tls");
    }
  }
}

// Readable means a byte of plaintext, or the end. Tickets and key updates of the peer make the
// stream below readable too, and data may lie here already decrypted.
Task<> TlsStream::wait_readable() {
  for (;;) {
    ::ERR_clear_error();
    char byte;
    std::size_t got = 0;
    const int outcome = ::SSL_peek_ex(impl_->ssl.get(), &byte, 1, &got);
    if (outcome == 1 || ::SSL_get_error(impl_->ssl.get(), outcome) != SSL_ERROR_WANT_READ) {
      co_return ok();  // an error shows itself to the read that follows
    }
    CO_TRY_DO(co_await impl_->below->wait_readable());
    CO_TRY(const bool more, co_await fill());
    if (!more) {
      co_return ok();
    }
  }
}

Task<> TlsStream::write(std::string_view bytes) {
  while (!bytes.empty()) {
    ::ERR_clear_error();
    std::size_t took = 0;
    const auto piece = bytes.substr(0, kTransferBytes);
    if (::SSL_write_ex(impl_->ssl.get(), piece.data(), piece.size(), &took) != 1) {
      co_return fail(openssl_error(Code::kUnavailable, "TLS connection broken"));
    }
    bytes.remove_prefix(took);
    CO_TRY_DO(co_await flush());
  }
  co_return ok();
}

Task<> TlsStream::write(std::string_view first, std::string_view second) {
  // One record instead of two when it is cheap to join them.
  if (!first.empty() && !second.empty() && first.size() + second.size() <= kTransferBytes) {
    const std::string joined = concat(first, second);
    co_return co_await write(joined);
  }
  CO_TRY_DO(co_await write(first));
  co_return co_await write(second);
}

Result<> TlsStream::finish_writing() {
  // The goodbye is one small record; it is sent if the stream below takes it at once.
  ::SSL_shutdown(impl_->ssl.get());
  if (auto* plain = dynamic_cast<io::FdStream*>(impl_->below.get()); plain && !impl_->flushing) {
    std::string bytes(BIO_ctrl_pending(impl_->outgoing), '\0');
    if (!bytes.empty()) {
      ::BIO_read(impl_->outgoing, bytes.data(), static_cast<int>(bytes.size()));
      plain->write_now(bytes);
    }
  }
  return impl_->below->finish_writing();
}

}  // namespace atl::tls
