#include "tls/stream.h"

#include <arpa/inet.h>
#include <poll.h>

#include "io/buffer.h"
#include "tls/context_impl.h"

namespace atl::tls {
namespace {

// Of ciphertext that is collected before it is sent.
constexpr std::size_t kFlushBytes = std::size_t{64} * 1024;
constexpr std::size_t kRecordBytes = std::size_t{16} * 1024;
constexpr std::size_t kSpareBytes = 2048;  // of memory for output, which a resting stream may keep
// What may wait for the peer while it sends: beyond it, it asks for answers and does not read them.
constexpr std::size_t kMaxWaitingBytes = 4 * kFlushBytes;

// Of streams that are no descriptors nobody knows.
bool is_readable(const io::Stream& stream) {
  const auto* plain = dynamic_cast<const io::FdStream*>(&stream);
  pollfd state{plain != nullptr ? plain->fd() : -1, POLLIN, 0};
  return plain == nullptr || ::poll(&state, 1, 0) > 0;
}

bool is_address(const std::string& host) {
  unsigned char ignored[16];
  return ::inet_pton(AF_INET, host.c_str(), ignored) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), ignored) == 1;
}

}  // namespace

// Between OpenSSL and the stream below: a BIO that reads from `input` and appends to `output`, so
// that bytes are copied once in each direction. What an idle stream does not need it gives back.
struct TlsStream::Impl {
  std::shared_ptr<const Context> owned_context;  // shared with the other streams of it
  std::unique_ptr<io::Stream> below;
  SslPtr ssl;
  std::string protocol;
  std::optional<io::Buffer> buffer;  // borrowed when it is needed
  std::string_view input;            // in the buffer: ciphertext from the peer
  std::string output;                // ciphertext for the peer
  std::string spare;                 // memory for the next output
  bool over = false;                 // reading has ended, or failed
  bool flushing = false;
  Event flushed;

  bool has_input() const { return !input.empty() || ::SSL_has_pending(ssl.get()) != 0; }
  void rest() {
    if (input.empty()) {
      buffer.reset();
    }
    if (spare.capacity() > kSpareBytes) {
      spare = {};
    }
  }
  Result<> write_records(std::string_view& bytes);
  // OpenSSL tells failures apart by what is in the thread's queue of errors.
  static void forget_errors() {
    if (::ERR_peek_error() != 0) {
      ::ERR_clear_error();
    }
  }

  static int read_input(BIO* bio, char* to, std::size_t size, std::size_t* got) {
    auto& me = *static_cast<Impl*>(::BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    *got = std::min(size, me.input.size());
    if (*got == 0) {
      BIO_set_retry_read(bio);
      return 0;
    }
    me.input.copy(to, *got);
    me.input.remove_prefix(*got);
    return 1;
  }
  static int write_output(BIO* bio, const char* from, std::size_t size, std::size_t* took) {
    auto& me = *static_cast<Impl*>(::BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    me.output.append(from, size);
    *took = size;
    return 1;
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }
  static BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* fresh = ::BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
      CHECK(fresh != nullptr);
      ::BIO_meth_set_read_ex(fresh, read_input);
      ::BIO_meth_set_write_ex(fresh, write_output);
      ::BIO_meth_set_ctrl(fresh, control);
      return fresh;
    }();
    return made;
  }
};

TlsStream::TlsStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsStream::~TlsStream() = default;
const std::string& TlsStream::protocol() const {
  return impl_->protocol;
}
std::string TlsStream::server_name() const {
  const char* name = ::SSL_get_servername(impl_->ssl.get(), TLSEXT_NAMETYPE_host_name);
  return name != nullptr ? name : "";
}
void TlsStream::release_buffers() {
  impl_->rest();
}
io::Stream& TlsStream::below() {
  return *impl_->below;
}

Result<> TlsStream::start_session(Impl& impl, const Context& context) {
  impl.ssl.reset(::SSL_new(context.impl_->context.get()));
  BIO* bio = ::BIO_new(Impl::method());
  if (!impl.ssl || bio == nullptr) {
    ::BIO_free(bio);
    return fail(openssl_error(Code::kResourceExhausted, "starting a TLS session"));
  }
  ::BIO_set_data(bio, &impl);
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(impl.ssl.get(), bio, bio);
  return {};
}

Task<std::unique_ptr<TlsStream>> TlsStream::accept(std::unique_ptr<io::Stream> below,
                                                   const Context& context) {
  auto impl = std::make_unique<Impl>();
  impl->below = std::move(below);
  CO_TRY_DO(start_session(*impl, context));
  ::SSL_set_accept_state(impl->ssl.get());
  std::unique_ptr<TlsStream> stream{new TlsStream{std::move(impl)}};
  CO_TRY_DO(co_await stream->handshake());
  co_return std::move(stream);
}

Task<std::unique_ptr<TlsStream>> TlsStream::connect(std::unique_ptr<io::Stream> below,
                                                    const Context& context, std::string host) {
  auto impl = std::make_unique<Impl>();
  impl->below = std::move(below);
  CO_TRY_DO(start_session(*impl, context));
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

Task<std::unique_ptr<TlsStream>> TlsStream::accept(std::unique_ptr<io::Stream> below,
                                                   std::shared_ptr<const Context> context) {
  CO_TRY(auto stream, co_await accept(std::move(below), *context));
  stream->impl_->owned_context = std::move(context);
  co_return std::move(stream);
}

Task<std::unique_ptr<TlsStream>> TlsStream::connect(std::unique_ptr<io::Stream> below,
                                                    std::shared_ptr<const Context> context,
                                                    std::string host) {
  CO_TRY(auto stream, co_await connect(std::move(below), *context, std::move(host)));
  stream->impl_->owned_context = std::move(context);
  co_return std::move(stream);
}

Task<> TlsStream::handshake() {
  for (;;) {
    Impl::forget_errors();
    const int outcome = ::SSL_do_handshake(impl_->ssl.get());
    const int reason = ::SSL_get_error(impl_->ssl.get(), outcome);
    Error failure;
    if (outcome != 1 && reason != SSL_ERROR_WANT_READ) {
      const bool no_protocol =
          ERR_GET_REASON(::ERR_peek_error()) == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL;
      failure = openssl_error(Code::kUnavailable, "TLS handshake failed");
      if (no_protocol) {
        failure.reason = "tls_no_protocol";
      }
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
  if (impl_->output.empty()) {
    co_return ok();
  }
  impl_->flushing = true;
  impl_->flushed.clear();
  Result<> result;
  while (result && !impl_->output.empty()) {
    std::string bytes = std::exchange(impl_->output, std::move(impl_->spare));
    result = co_await impl_->below->write(bytes);
    bytes.clear();
    impl_->spare = std::move(bytes);
  }
  impl_->flushing = false;
  impl_->flushed.set();
  co_return std::move(result);
}

// REQUIRES: all input was taken.
Task<bool> TlsStream::fill() {
  CHECK(impl_->input.empty());
  if (impl_->output.size() > kMaxWaitingBytes) {
    co_return fail(Code::kResourceExhausted, "the peer does not read", "tls");
  }
  if (!impl_->buffer) {
    impl_->buffer.emplace();
  }
  CO_TRY(const auto got, co_await impl_->below->read(impl_->buffer->span()));
  impl_->input = {impl_->buffer->data(), got};
  co_return got > 0;
}

// As much as is here, when something is.
Task<std::size_t> TlsStream::read(std::span<char> buffer) {
  std::size_t total = 0;
  for (;;) {
    Impl::forget_errors();
    std::size_t got = 0;
    const auto rest = buffer.subspan(total);
    const int outcome = ::SSL_read_ex(impl_->ssl.get(), rest.data(), rest.size(), &got);
    if (outcome == 1) {
      total += got;
      if (total < buffer.size() && impl_->has_input()) {
        continue;
      }
      co_return total;
    }
    const int reason = ::SSL_get_error(impl_->ssl.get(), outcome);
    impl_->over = reason != SSL_ERROR_WANT_READ;
    if (total > 0) {
      co_return total;  // what else there is shows itself to the next read
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

bool TlsStream::has_plaintext() {
  if (impl_->over || !impl_->has_input()) {
    return impl_->over;
  }
  Impl::forget_errors();
  char byte;
  std::size_t got = 0;
  const int outcome = ::SSL_peek_ex(impl_->ssl.get(), &byte, 1, &got);
  impl_->over = outcome != 1 && ::SSL_get_error(impl_->ssl.get(), outcome) != SSL_ERROR_WANT_READ;
  return outcome == 1 || impl_->over;
}

// Readable means a byte of plaintext, or the end. Tickets and key updates of the peer make the
// stream below readable too, and data may lie here already decrypted.
Task<> TlsStream::wait_readable() {
  while (!has_plaintext()) {
    impl_->rest();
    CO_TRY_DO(co_await impl_->below->wait_readable());
    CO_TRY(const bool more, co_await fill());
    if (!more) {
      break;
    }
  }
  co_return ok();
}

bool TlsStream::is_quiet() const {
  return !impl_->over && !impl_->has_input() && !is_readable(*impl_->below);
}

Task<bool> TlsStream::has_news() {
  while (!has_plaintext()) {
    if (!is_readable(*impl_->below)) {
      co_return impl_->has_input();  // the beginning of something
    }
    CO_TRY(const bool more, co_await fill());  // does not wait: something is there
    if (!more) {
      break;
    }
  }
  co_return true;
}

// Encrypts until enough is collected for one system call.
Result<> TlsStream::Impl::write_records(std::string_view& bytes) {
  while (!bytes.empty() && output.size() < kFlushBytes) {
    forget_errors();
    std::size_t took = 0;
    const auto piece = bytes.substr(0, kRecordBytes);
    if (::SSL_write_ex(ssl.get(), piece.data(), piece.size(), &took) != 1) {
      return fail(openssl_error(Code::kUnavailable, "TLS connection broken"));
    }
    bytes.remove_prefix(took);
  }
  return {};
}

Task<> TlsStream::write(std::string_view bytes) {
  return write(bytes, {});
}

// A head shares its record, and its system call, with the beginning of its body.
Task<> TlsStream::write(std::string_view first, std::string_view second) {
  std::string joined;
  if (!first.empty() && !second.empty() && first.size() < kRecordBytes) {
    joined = concat(first, second.substr(0, kRecordBytes - first.size()));
    second.remove_prefix(joined.size() - first.size());
    first = joined;
  }
  while (!first.empty() || !second.empty()) {
    CO_TRY_DO(impl_->write_records(first));
    if (first.empty()) {
      CO_TRY_DO(impl_->write_records(second));
    }
    CO_TRY_DO(co_await flush());
  }
  co_return ok();
}

Task<> TlsStream::finish() {
  ::SSL_shutdown(impl_->ssl.get());
  CO_TRY_DO(co_await flush());
  co_return impl_->below->finish_writing();
}

Result<> TlsStream::finish_writing() {
  // The goodbye is one small record; it is sent if the stream below takes it at once.
  ::SSL_shutdown(impl_->ssl.get());
  if (auto* plain = dynamic_cast<io::FdStream*>(impl_->below.get()); plain && !impl_->flushing) {
    const std::string bytes = std::exchange(impl_->output, {});
    if (!bytes.empty()) {
      plain->write_now(bytes);
    }
  }
  return impl_->below->finish_writing();
}

}  // namespace atl::tls
