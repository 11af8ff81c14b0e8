// Requests as streams of HTTP/2 connections: a sandbox's, and those to servers.
#pragma once

#include "proxy/http/conversation.h"
#include "proxy/http/exchange.h"
#include "proxy/http/h2_link.h"

namespace atl::proxy::http {

// Serves a sandbox's connection that speaks HTTP/2, many requests at a time.
Task<> serve_http2(Conversation& conversation, std::unique_ptr<io::Stream> stream);

class H2ClientSide final : public ClientSide {
 public:
  H2ClientSide(H2Link& link, H2Stream& stream);

  RequestHead& head() override { return head_; }
  Task<std::size_t> read(std::span<char> buffer) override;
  const Headers& trailers() const override { return stream_.trailers; }
  Task<> inform(int status, Headers headers) override;
  Task<> start(ResponseHead head) override;
  Task<> flush() override;
  Task<> write(std::string_view bytes) override;
  Task<> finish(std::string_view rest, Headers trailers) override;
  bool started() const override { return started_; }
  Task<> gone() override;
  Task<Upgraded> switch_protocols(ResponseHead head) override;
  bool finished() const { return finished_; }

 private:
  H2Link& link_;
  H2Stream& stream_;
  RequestHead head_;
  bool started_ = false;
  bool has_body_ = false;
  bool finished_ = false;
};

class H2ServerSide final : public ServerSide {
 public:
  H2ServerSide(std::shared_ptr<H2Link> link, bool secure, bool fresh);
  ~H2ServerSide() override;

  Task<> start(const RequestHead& head) override;
  Task<> write(std::string_view bytes) override;
  Task<> finish(Headers trailers) override;
  Task<ResponseHead> read_head() override;
  Task<std::size_t> read(std::span<char> buffer) override;
  bool has_ready_bytes() const override;
  bool has_ended() const override;
  const Headers& trailers() const override;
  bool is_fresh() const override { return fresh_; }
  Task<Upgraded> take_stream() override;

 private:
  std::shared_ptr<H2Link> link_;  // shared with the pool and its own task
  const bool secure_;
  const bool fresh_;
  std::shared_ptr<H2Stream> stream_;  // shared with the session
  Event begun_;
  bool has_body_ = false;
};

}  // namespace atl::proxy::http
