// One request and its answer on an HTTP/1 connection.
//
// The exchange owns the request's values and the state of the response; bytes go through the
// connection's wire. It enforces what the wire format promises: exactly the announced number of
// bytes, no body where there must be none, no header that splits the response. Whether the
// connection may be used again is decided when the response head is made, and can only become
// false afterwards.
#pragma once

#include <optional>
#include <string>

#include "http/h1_wire.h"
#include "http/server_core.h"
#include "http/websocket_handshake.h"
#include "io/file_sender.h"

namespace atl::http {

class ServerExchange final : public Exchange {
 public:
  // Takes the head out of the wire's parser. Everything passed in outlives the exchange. `socket`
  // is the one under the stream.
  ServerExchange(ServerCore& core, Http1Wire& wire, io::Stream& stream, const std::string& peer,
                 Trace& trace, int socket);

  const Request& request() const override { return request_; }
  Body& body() override { return body_; }
  Task<> respond(Response response) override;
  Task<> start(int status, Headers headers, std::optional<std::uint64_t> length) override;
  Task<> write(std::string_view bytes) override;
  bool reserve_file(std::string_view owner) override;
  void release_file() override { file_place_.reset(); }
  Task<> send_file(FilePart part) override;
  Task<> finish() override;
  bool started() const override { return state_ != State::kOpen; }
  Task<> client_gone() override;
  Event& server_stops() override { return core_.stops; }
  Task<std::unique_ptr<WebSocket>> accept_websocket(WebSocketOptions options) override;
  const std::string& peer() const override { return peer_; }

  bool finished() const { return state_ == State::kFinished; }
  // Null unless the exchange became a WebSocket.
  WebSocketLink* websocket() const { return websocket_.get(); }
  bool keep_alive() const { return keep_alive_; }
  // The response ends where the connection ends, so an abort must be a reset to be noticed.
  bool ends_with_connection() const { return coding_ == Coding::kUntilClose; }

 private:
  enum class State : std::uint8_t { kOpen, kStreaming, kFinished, kBroken };
  enum class Coding : std::uint8_t { kNothing, kLength, kChunked, kUntilClose };

  class RequestBody final : public Body {
   public:
    explicit RequestBody(ServerExchange& exchange) : exchange_(exchange) {}
    Task<std::size_t> read(std::span<char> buffer) override { return exchange_.read_body(buffer); }
    std::optional<std::uint64_t> length() const override { return exchange_.body_length_; }

   private:
    ServerExchange& exchange_;
  };

  Task<std::size_t> read_body(std::span<char> buffer);
  Task<> send(std::string_view first, std::string_view second = {});
  Task<> sending(Task<> writing);
  Task<> send_body(std::string_view bytes);
  // Judges the response, sets coding and keep-alive, and returns the bytes of its head.
  Result<std::string> make_head(int status, const Headers& headers,
                                std::optional<std::uint64_t> length);
  void decide_keep_alive(const Headers& headers);

  ServerCore& core_;
  Http1Wire& wire_;
  io::Stream& stream_;
  const std::string& peer_;
  Trace& trace_;
  const int socket_;
  Request request_;
  RequestBody body_{*this};
  std::optional<std::uint64_t> body_length_;
  int minor_version_ = 1;
  bool continue_awaited_ = false;
  bool keep_alive_ = false;
  State state_ = State::kOpen;
  Coding coding_ = Coding::kNothing;
  std::uint64_t remaining_bytes_ = 0;  // of kLength
  std::unique_ptr<io::FileSender::Place> file_place_;
  std::shared_ptr<WebSocketLink> websocket_;  // shared with the socket
};

}  // namespace atl::http
