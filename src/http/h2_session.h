// HTTP/2 without I/O: bytes in, requests out; responses in, bytes out. libnghttp2 does the framing,
// header compression and the protocol's own rules; this class adds ours.
//
// Flow control is the handler's pace. What a client sends waits in Http2Stream::input and the
// window is opened again only by consume(), so a connection holds at most its window of unread
// bytes. Output is pulled: nghttp2 asks for bytes when the peer's window and our socket have room,
// and takes them out of the view that a writer is waiting behind.
//
// Whoever resets streams, pings or sends settings faster than any honest client does is cut off.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "http/h2_limits.h"
#include "http/http1_gate.h"
#include "http/websocket.h"

struct nghttp2_session;

namespace atl::http {

// One request and its answer, between nghttp2 and a handler.
struct Http2Stream {
  std::int32_t id = 0;
  // The request, judged like one of HTTP/1.
  Http1Head head;
  std::optional<Refusal> refusal;
  bool wants_websocket = false;  // extended CONNECT (RFC 8441)
  std::string authority;
  std::string protocol;
  std::size_t header_bytes = 0;
  // The request's body.
  std::string input;
  bool input_ended = false;
  bool abandoned = false;  // no handler reads it any more
  Event input_changed;
  // The response's body; borrowed from the writer, who waits until it is empty.
  std::string_view output;
  bool output_ended = false;
  bool output_done = false;
  Event output_changed;
  // Ended, by both sides having finished or by a reset.
  bool closed = false;
  Event gone;
  std::shared_ptr<WebSocketLink> websocket;  // shared with the socket
};

class Http2Session {
 public:
  // `busy` counts handlers under way, also those whose stream the client has reset already.
  Http2Session(HeadLimits limits, const std::size_t& busy);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Fails when the connection must end at once.
  Result<> feed(std::string_view bytes, Instant now);
  // Appends frames until `out` has about `max_bytes` or there are none.
  Result<> take_output(std::string& out, std::size_t max_bytes);
  std::vector<std::shared_ptr<Http2Stream>> take_requests();
  bool wants_more() const;

  void consume(Http2Stream& stream, std::size_t bytes);
  void abandon_input(Http2Stream& stream);
  void send_continue(const Http2Stream& stream);
  // `fields` are lower case. Without a body the stream's response is complete.
  Result<> respond(Http2Stream& stream, int status, const Headers& fields, bool has_body);
  void resume(const Http2Stream& stream);
  void reset(const Http2Stream& stream, bool our_fault);
  // No new requests; those under way go on.
  void go_away();
  // The connection is gone: wakes everybody who waits for it.
  void close_streams();
  const std::unordered_map<std::int32_t, std::shared_ptr<Http2Stream>>& streams() const {
    return streams_;
  }
  bool violated() const { return violated_; }

 private:
  friend struct Http2Callbacks;
  Http2Stream* find(std::int32_t id);
  void finish_head(Http2Stream& stream);
  void add_field(Http2Stream& stream, std::string_view name, std::string_view value);
  void end_stream(std::int32_t id);
  void punish();

  const HeadLimits limits_;
  const std::size_t& busy_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<std::int32_t, std::shared_ptr<Http2Stream>> streams_;
  std::vector<std::shared_ptr<Http2Stream>> requests_;
  TokenBucket resets_{200, 20};
  TokenBucket chores_{1000, 100};
  Instant now_{};
  bool violated_ = false;
};

}  // namespace atl::http
