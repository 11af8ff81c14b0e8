// The handshake of WebSockets (RFC 6455, section 4), both sides, over HTTP/1.
#pragma once

#include "http/h1_wire.h"
#include "http/websocket.h"

namespace atl::http {

// The Sec-WebSocket-Accept for a request that asks for a WebSocket in every required way.
// kInvalidArgument (a 400) with the reason websocket_handshake otherwise.
Result<std::string> judge_websocket_request(const Request& request, int minor_version);
// The head of the 101 answer. `protocol` is named only when the client offered it.
Result<std::string> make_websocket_answer(const Request& request, std::string_view accept,
                                          std::string_view protocol);

// What is left of a connection after the upgrade: bytes the wire had read ahead, then the stream.
class UpgradedStream final : public io::Stream {
 public:
  // `owner` is whatever must live as long as this stream does.
  UpgradedStream(Http1Wire& wire, io::Stream& stream, Counter* received, Counter* sent,
                 std::shared_ptr<void> owner = {})
      : owner_(std::move(owner)),
        stream_(stream),
        rest_(wire.take_input()),
        received_bytes_(received),
        sent_bytes_(sent) {}

  Task<std::size_t> read(std::span<char> buffer) override;
  Task<> write(std::string_view bytes) override { return write(bytes, {}); }
  Task<> write(std::string_view first, std::string_view second) override;
  Task<> wait_readable() override;
  Result<> finish_writing() override { return stream_.finish_writing(); }

 private:
  std::shared_ptr<void> owner_;
  io::Stream& stream_;
  std::string rest_;
  Counter* received_bytes_;
  Counter* sent_bytes_;
};

}  // namespace atl::http
