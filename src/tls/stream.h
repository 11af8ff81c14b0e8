// A Stream that is encrypted: TLS over any other Stream.
//
// OpenSSL works on memory only; this class moves bytes between that and the stream below, so that
// one read and one write can be under way at the same time, as Stream promises. A stream that waits
// to become readable holds no buffers.
#pragma once

#include <memory>
#include <string>

#include "io/stream.h"
#include "tls/context.h"

namespace atl::tls {

class TlsStream final : public io::Stream {
 public:
  // Completes the handshake before it returns. The context must outlive the stream, or is kept
  // alive by it.
  static Task<std::unique_ptr<TlsStream>> accept(std::unique_ptr<io::Stream> below,
                                                 const Context& context);
  static Task<std::unique_ptr<TlsStream>> accept(std::unique_ptr<io::Stream> below,
                                                 std::shared_ptr<const Context> context);
  // Verifies the peer's certificate for `host` (a name or an address).
  static Task<std::unique_ptr<TlsStream>> connect(std::unique_ptr<io::Stream> below,
                                                  const Context& context, std::string host);
  static Task<std::unique_ptr<TlsStream>> connect(std::unique_ptr<io::Stream> below,
                                                  std::shared_ptr<const Context> context,
                                                  std::string host);
  ~TlsStream() override;

  Task<std::size_t> read(std::span<char> buffer) override;
  Task<> write(std::string_view bytes) override;
  Task<> write(std::string_view first, std::string_view second) override;
  Task<> wait_readable() override;
  Result<> finish_writing() override;

  // The goodbye, then finish_writing(); for streams below that are not bare sockets, too.
  Task<> finish();

  // Nothing came that was not read, as far as the kernel knows now. Not while a read is under way.
  bool is_quiet() const;
  // The same, the other way round, and apart from the protocol's own messages, which it takes.
  Task<bool> has_news();

  const std::string& protocol() const;  // what ALPN chose, empty when nothing
  // Memory that only a busy stream needs; a stream that waits to become readable does it itself.
  void release_buffers();
  // Of a server: the name the client asked for, empty when it named none.
  std::string server_name() const;
  io::Stream& below();

 private:
  struct Impl;
  explicit TlsStream(std::unique_ptr<Impl> impl);
  static Result<> start_session(Impl& impl, const Context& context);
  Task<> handshake();
  Task<> flush();
  Task<bool> fill();     // false: the stream below has ended
  bool has_plaintext();  // or an end or an error, which the next read shows
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::tls
