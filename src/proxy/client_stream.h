// The client's side of a connection whose contents are looked at: a stream that first gives the
// bytes that were read to find out what it speaks, and that counts and slows what passes.
#pragma once

#include "io/stream.h"
#include "proxy/allowance.h"
#include "proxy/socket.h"

namespace atl::proxy {

class ClientStream final : public io::Stream {
 public:
  // Both outlive the stream: a handler is awaited by the one who owns them.
  ClientStream(Socket& socket, Meter& meter, std::string first)
      : socket_(socket), meter_(meter), first_(std::move(first)) {}

  Task<std::size_t> read(std::span<char> buffer) override;
  Task<> write(std::string_view bytes) override;
  Task<> write(std::string_view first, std::string_view second) override;
  Task<> wait_readable() override;
  Result<> finish_writing() override;

 private:
  Socket& socket_;
  Meter& meter_;
  std::string first_;
  std::size_t first_given_ = 0;
};

}  // namespace atl::proxy
