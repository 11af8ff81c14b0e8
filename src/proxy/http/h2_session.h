// HTTP/2 without I/O, in either role: as the server of a sandbox, or as a client of a server.
// libnghttp2 does the framing, header compression and the protocol's own rules; this class adds
// the gate, our limits, trailers and flow control end to end.
//
// What the peer sends waits in H2Stream::input and its window opens again only as that is read.
// Output is pulled out of the view that a writer waits behind, when the peer's window has room. A
// peer that resets, pings or sends settings faster than any honest one does is cut off.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "http/h2_limits.h"
#include "http/http1_gate.h"
#include "proxy/http/exchange.h"

struct nghttp2_session;

namespace atl::proxy::http {

enum class H2Role : std::uint8_t { kServer, kClient };
// Why a stream is reset: it was answered and its rest is not needed, nobody wants it any more, or
// it cannot be completed.
enum class H2Reset : std::uint8_t { kDone, kCancel, kBroken };

inline constexpr std::uint32_t kMaxH2Streams = 128;

struct H2Stream {
  std::int32_t id = 0;
  // The head under way, in the form of HTTP/1, so that the same gate judges both.
  atl::http::Http1Head head;
  std::string authority;
  std::size_t header_bytes = 0;
  std::size_t header_count = 0;
  bool has_final_head = false;
  std::optional<atl::http::Refusal> refusal;
  bool answers_head = false;          // the request's method was HEAD
  std::vector<ResponseHead> answers;  // of a client: informational ones, then the final one
  Headers trailers;
  // What the peer sent of the body.
  std::string input;
  std::size_t taken_bytes = 0;  // of input
  bool input_ended = false;
  Event input_changed;
  // Our body; borrowed from the writer, who waits until it is empty.
  std::string_view output;
  bool output_ended = false;
  Headers output_trailers;
  bool output_done = false;
  Event output_changed;
  // Ended, by both sides having finished or by a reset.
  bool closed = false;
  Event gone;

  std::size_t input_bytes() const { return input.size() - taken_bytes; }
};

class H2Session {
 public:
  explicit H2Session(H2Role role);
  ~H2Session();
  H2Session(const H2Session&) = delete;
  H2Session& operator=(const H2Session&) = delete;

  // Fails when the connection must end at once.
  Result<> feed(std::string_view bytes, Instant now);
  // Appends frames until `out` has about `max_bytes` or there are none.
  Result<> take_output(std::string& out, std::size_t max_bytes);
  bool has_output() const;
  bool wants_more() const;

  // A server's: requests whose head is complete.
  std::vector<std::shared_ptr<H2Stream>> take_requests();
  void handler_ended() { --handlers_; }
  Result<> inform(const H2Stream& stream, int status, const Headers& fields);
  Result<> respond(H2Stream& stream, const ResponseHead& head);
  // A client's.
  bool takes_requests() const;
  Result<std::shared_ptr<H2Stream>> request(const RequestHead& head, bool secure);

  void consume(H2Stream& stream, std::size_t bytes);
  void resume(const H2Stream& stream);
  void reset(const H2Stream& stream, H2Reset why);
  void go_away();
  // The connection is gone: wakes everybody who waits for it.
  void close_streams();
  std::size_t open_streams() const { return streams_.size(); }
  // Somebody works on a request, or waits for its answer.
  bool is_busy() const { return role_ == H2Role::kServer ? handlers_ > 0 : !streams_.empty(); }
  bool violated() const { return violated_; }

 private:
  friend struct H2Events;
  H2Stream* find(std::int32_t id);
  void add_field(H2Stream& stream, std::string_view name, std::string_view value);
  void end_headers(H2Stream& stream);
  void end_request_head(H2Stream& stream);
  void end_answer_head(H2Stream& stream);
  void end_stream(std::int32_t id);
  void punish();

  const H2Role role_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<std::int32_t, std::shared_ptr<H2Stream>> streams_;
  std::vector<std::shared_ptr<H2Stream>> requests_;
  std::size_t handlers_ = 0;  // also of streams that were reset
  std::string* output_ = nullptr;
  atl::http::TokenBucket resets_{200, 20};
  atl::http::TokenBucket chores_{2000, 500};
  Instant now_{};
  bool violated_ = false;
  bool peer_leaves_ = false;
};

}  // namespace atl::proxy::http
