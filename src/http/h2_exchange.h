// One request and its answer on an HTTP/2 connection.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "http/h2_session.h"
#include "http/server_core.h"

namespace atl::http {

class Http2Exchange final : public Exchange {
 public:
  // `wake` makes the connection send what the session has to send. All of it outlives the exchange.
  Http2Exchange(ServerCore& core, Http2Session& session, Http2Stream& stream, Event& wake,
                const std::string& peer, Trace& trace);

  const Request& request() const override { return request_; }
  Body& body() override { return body_; }
  Task<> respond(Response response) override;
  Task<> start(int status, Headers headers, std::optional<std::uint64_t> length) override;
  Task<> write(std::string_view bytes) override;
  Task<> finish() override;
  bool started() const override { return state_ != State::kOpen; }
  Task<> client_gone() override;
  Event& server_stops() override { return core_.stops; }
  Task<std::unique_ptr<WebSocket>> accept_websocket(WebSocketOptions options) override;
  const std::string& peer() const override { return peer_; }

  bool finished() const { return state_ == State::kFinished; }

  // For the stream under a WebSocket: no deadline, its own pings watch the peer.
  Task<std::size_t> read_input(std::span<char> buffer, Duration deadline);
  Task<> write_output(std::string_view bytes, Duration deadline);
  Task<> wait_for_input(Duration deadline);

 private:
  enum class State : std::uint8_t { kOpen, kStreaming, kFinished };

  class RequestBody final : public Body {
   public:
    explicit RequestBody(Http2Exchange& exchange) : exchange_(exchange) {}
    Task<std::size_t> read(std::span<char> buffer) override;
    std::optional<std::uint64_t> length() const override { return exchange_.body_length_; }

   private:
    Http2Exchange& exchange_;
  };

  Result<> send_head(int status, const Headers& headers, std::optional<std::uint64_t> length);
  Task<> send_rest(std::string_view last);
  Task<> wait(Event& event, Duration deadline, std::string_view who);

  ServerCore& core_;
  Http2Session& session_;
  Http2Stream& stream_;
  Event& wake_;
  const std::string& peer_;
  Trace& trace_;
  Request request_;
  RequestBody body_{*this};
  std::optional<std::uint64_t> body_length_;
  bool continue_awaited_ = false;
  State state_ = State::kOpen;
  bool has_body_ = false;
  std::optional<std::uint64_t> remaining_bytes_;
};

}  // namespace atl::http
