// A Stream that is encrypted: TLS over any other Stream.
//
// OpenSSL works on memory buffers only; this class moves bytes between those and the stream below,
// so that one read and one write can be under way at the same time, as Stream promises.
#pragma once

#include <memory>
#include <string>

#include "io/stream.h"
#include "tls/context.h"

namespace atl::tls {

class TlsStream final : public io::Stream {
 public:
  // Completes the handshake before it returns. The context must outlive the stream.
  static Task<std::unique_ptr<TlsStream>> accept(std::unique_ptr<io::Stream> below,
                                                 const Context& context);
  // Verifies the peer's certificate for `host` (a name or an address).
  static Task<std::unique_ptr<TlsStream>> connect(std::unique_ptr<io::Stream> below,
                                                  const Context& context, std::string host);
  ~TlsStream() override;

  Task<std::size_t> read(std::span<char> buffer) override;
  Task<> write(std::string_view bytes) override;
  Task<> write(std::string_view first, std::string_view second) override;
  Task<> wait_readable() override;
  Result<> finish_writing() override;

  const std::string& protocol() const;  // what ALPN chose, empty when nothing
  io::Stream& below();

 private:
  struct Impl;
  explicit TlsStream(std::unique_ptr<Impl> impl);
  Task<> handshake();
  Task<> flush();
  Task<bool> fill();  // false: the stream below has ended
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::tls
