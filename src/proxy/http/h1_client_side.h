// A sandbox's connection that speaks HTTP/1: one request after another.
#pragma once

#include "http/h1_wire.h"
#include "proxy/http/conversation.h"
#include "proxy/http/exchange.h"

namespace atl::proxy::http {

// Until the client ends it, breaks the rules, or an answer cannot be completed.
Task<> serve_http1(Conversation& conversation, io::Stream& stream);

class H1ClientSide final : public ClientSide {
 public:
  // REQUIRES: the wire has just read a head. Both outlive this.
  H1ClientSide(atl::http::Http1Wire& wire, io::Stream& stream);

  RequestHead& head() override { return head_; }
  Task<std::size_t> read(std::span<char> buffer) override;
  const Headers& trailers() const override;
  Task<> inform(int status, Headers headers) override;
  Task<> start(ResponseHead head) override;
  Task<> flush() override;
  Task<> write(std::string_view bytes) override;
  Task<> finish(std::string_view rest, Headers trailers) override;
  bool started() const override { return started_; }
  Task<> gone() override;
  Task<Upgraded> switch_protocols(ResponseHead head) override;

  // The answer is complete and another request may follow.
  bool may_go_on() const { return finished_ && keep_alive_ && wire_.parser().done(); }
  bool finished() const { return finished_; }

 private:
  enum class Coding : std::uint8_t { kNothing, kLength, kChunked, kUntilClose };

  Result<> count(std::size_t bytes);  // of the body, before they are sent

  atl::http::Http1Wire& wire_;
  io::Stream& stream_;
  RequestHead head_;
  int minor_version_;
  bool keep_alive_;
  bool started_ = false;
  bool finished_ = false;
  Coding coding_ = Coding::kNothing;
  std::uint64_t remaining_bytes_ = 0;
  std::string pending_;  // a head that waits for the first bytes of its body
};

}  // namespace atl::proxy::http
