#include "http/h2_exchange.h"

#include <array>
#include <cstring>

#include "base/strings.h"

namespace atl::http {
namespace {

// Fields that belong to a connection have no meaning in HTTP/2; the others we say ourselves.
bool is_ours(std::string_view name) {
  constexpr std::array<std::string_view, 8> kOurs{
      "connection", "keep-alive", "proxy-connection", "transfer-encoding",
      "upgrade",    "te",         "content-length",   "date"};
  return std::ranges::find(kOurs, name) != kOurs.end();
}

std::unexpected<Error> gone() {
  return fail(Code::kUnavailable, "the client has cancelled the request", "closed");
}

// The bytes of a stream as a stream of their own, for a WebSocket.
class TunnelStream final : public io::Stream {
 public:
  explicit TunnelStream(Http2Exchange& exchange) : exchange_(exchange) {}
  Task<std::size_t> read(std::span<char> buffer) override {
    return exchange_.read_input(buffer, Duration::zero());
  }
  Task<> write(std::string_view bytes) override {
    return exchange_.write_output(bytes, Duration::zero());
  }
  Task<> write(std::string_view first, std::string_view second) override {
    CO_TRY_DO(co_await write(first));
    co_return co_await write(second);
  }
  Task<> wait_readable() override { return exchange_.wait_for_input(Duration::zero()); }
  Result<> finish_writing() override { return {}; }

 private:
  Http2Exchange& exchange_;
};

}  // namespace

Http2Exchange::Http2Exchange(ServerCore& core, Http2Session& session, Http2Stream& stream,
                             Event& wake, const std::string& peer, Trace& trace)
    : core_(core), session_(session), stream_(stream), wake_(wake), peer_(peer), trace_(trace) {
  Http1Head& head = stream.head;
  request_.method = std::move(head.method);
  request_.target = std::move(head.target);
  request_.headers = std::move(head.headers);
  const auto question = request_.target.find('?');
  request_.path = request_.target.substr(0, question);
  if (question != std::string::npos) {
    request_.query = request_.target.substr(question + 1);
  }
  if (head.framing.kind != Framing::Kind::kChunked) {
    body_length_ = head.framing.length;
  }
  continue_awaited_ = head.expects_continue;
}

Task<> Http2Exchange::wait(Event& event, Duration deadline, std::string_view who) {
  struct Steps {
    static Task<> run(Event& event) { co_return co_await event.wait(); }
  };
  if (deadline == Duration::zero()) {
    co_return co_await event.wait();
  }
  auto waited = co_await with_deadline(deadline, Steps::run(event));
  if (!waited && waited.error().code == Code::kDeadlineExceeded) {
    co_return fail(Code::kDeadlineExceeded, concat("the client stopped ", who),
                   std::string{kClientStalled});
  }
  co_return std::move(waited);
}

Task<> Http2Exchange::wait_for_input(Duration deadline) {
  while (stream_.input.empty() && !stream_.input_ended && !stream_.closed) {
    stream_.input_changed.clear();
    CO_TRY_DO(co_await wait(stream_.input_changed, deadline, "sending the request body"));
  }
  co_return ok();
}

Task<std::size_t> Http2Exchange::read_input(std::span<char> buffer, Duration deadline) {
  CO_TRY_DO(co_await wait_for_input(deadline));
  if (stream_.input.empty()) {
    if (!stream_.input_ended) {
      co_return gone();
    }
    co_return std::size_t{0};
  }
  const auto size = std::min(buffer.size(), stream_.input.size());
  std::memcpy(buffer.data(), stream_.input.data(), size);
  session_.consume(stream_, size);
  wake_.set();  // the window may open
  co_return size;
}

Task<std::size_t> Http2Exchange::RequestBody::read(std::span<char> buffer) {
  Http2Exchange& exchange = exchange_;
  if (std::exchange(exchange.continue_awaited_, false) && exchange.state_ == State::kOpen &&
      exchange.stream_.input.empty() && !exchange.stream_.closed) {
    exchange.session_.send_continue(exchange.stream_);
    exchange.wake_.set();
  }
  return exchange.read_input(buffer, exchange.core_.limits.stall_timeout);
}

Result<> Http2Exchange::send_head(int status, const Headers& headers,
                                  std::optional<std::uint64_t> length) {
  if (state_ != State::kOpen) {
    return fail(Code::kInternal, "a response was already started");
  }
  if (status < 200 || status > 599) {
    return fail(Code::kInternal, concat("a response cannot have the status ", status));
  }
  const bool bodiless = status == 204 || status == 304;
  Headers fields;
  const auto date = trim(std::string_view{core_.date_line()}.substr(std::strlen("date: ")));
  fields.add("date", date);
  for (const auto& [name, value] : headers.lines()) {
    if (!is_token(name) || !is_field_value(value)) {
      return fail(Code::kInternal, "a response header has characters that are not allowed");
    }
    if (const auto lower = to_lower(name); !is_ours(lower)) {
      fields.add(lower, trim(value));
    }
  }
  trace_.mark(Step::kEncode, core_.reactor.now());
  if (trace_.reported()) {
    fields.add(kTimingHeader, trace_.render());
  }
  if (length && !bodiless) {
    fields.add("content-length", std::to_string(*length));
  }
  has_body_ = !bodiless && request_.method != "HEAD" && length != 0;
  remaining_bytes_ = length;
  core_.metrics.count_response(status);
  state_ = State::kStreaming;
  if (stream_.closed) {
    return gone();
  }
  TRY_DO(session_.respond(stream_, status, fields, has_body_));
  wake_.set();
  return {};
}

// Waits until nghttp2 has taken all of it, or the stream is over. The view never outlives the call.
Task<> Http2Exchange::write_output(std::string_view bytes, Duration deadline) {
  if (stream_.closed) {
    co_return gone();
  }
  stream_.output = bytes;
  session_.resume(stream_);
  wake_.set();
  Result<> waited;
  std::size_t left = bytes.size();
  while (waited && !stream_.closed &&
         (!stream_.output.empty() || (stream_.output_ended && !stream_.output_done))) {
    stream_.output_changed.clear();
    waited = co_await wait(stream_.output_changed, deadline, "reading the response");
    const bool moved = stream_.output.size() < std::exchange(left, stream_.output.size());
    if (!waited && waited.error().code == Code::kDeadlineExceeded && moved) {
      waited = {};  // slow, but reading
    }
  }
  const bool taken = stream_.output.empty();
  stream_.output = {};
  if (!waited) {
    co_return std::move(waited);
  }
  if (!taken || (stream_.output_ended && !stream_.output_done)) {
    co_return gone();
  }
  co_return ok();
}

Task<> Http2Exchange::send_rest(std::string_view last) {
  stream_.output_ended = true;
  CO_TRY_DO(co_await write_output(last, core_.limits.stall_timeout));
  state_ = State::kFinished;
  co_return ok();
}

Task<> Http2Exchange::respond(Response response) {
  CO_TRY_DO(send_head(response.status, response.headers, response.body.size()));
  if (!has_body_) {
    state_ = State::kFinished;
    co_return ok();
  }
  co_return co_await send_rest(response.body);
}

Task<> Http2Exchange::start(int status, Headers headers, std::optional<std::uint64_t> length) {
  co_return send_head(status, headers, length);
}

Task<> Http2Exchange::write(std::string_view bytes) {
  if (state_ != State::kStreaming) {
    co_return fail(Code::kInternal, "the response is not open for writing");
  }
  if (remaining_bytes_) {
    if (bytes.size() > *remaining_bytes_) {
      co_return fail(Code::kInternal, "more bytes than the response announced");
    }
    *remaining_bytes_ -= bytes.size();
  }
  if (bytes.empty() || !has_body_) {
    co_return ok();
  }
  co_return co_await write_output(bytes, core_.limits.stall_timeout);
}

Task<> Http2Exchange::finish() {
  if (state_ != State::kStreaming) {
    co_return fail(Code::kInternal, "the response is not open for finishing");
  }
  if (has_body_ && remaining_bytes_.value_or(0) > 0) {
    co_return fail(Code::kInternal, "fewer bytes than the response announced");
  }
  if (!has_body_) {
    state_ = State::kFinished;
    co_return ok();
  }
  co_return co_await send_rest({});
}

Task<> Http2Exchange::client_gone() {
  co_return co_await stream_.gone.wait();
}

Task<std::unique_ptr<WebSocket>> Http2Exchange::accept_websocket(WebSocketOptions options) {
  if (!stream_.wants_websocket || request_.headers.get("sec-websocket-version") != "13") {
    co_return fail(Code::kInvalidArgument,
                   "this is a WebSocket: on HTTP/2 send CONNECT with :protocol websocket, "
                   "version 13",
                   "websocket_handshake");
  }
  Headers fields;
  if (!options.protocol.empty() &&
      list_has_token(request_.headers, "sec-websocket-protocol", options.protocol)) {
    fields.add("sec-websocket-protocol", options.protocol);
  }
  CO_TRY_DO(send_head(200, fields, std::nullopt));
  core_.metrics.websockets.add();
  core_.metrics.websockets_open.add(1);
  stream_.websocket = std::make_shared<WebSocketLink>();
  stream_.websocket->going_away = core_.draining;
  co_return std::make_unique<WebSocket>(std::make_unique<TunnelStream>(*this),
                                        WebSocketRole::kServer, std::move(options),
                                        stream_.websocket);
}

}  // namespace atl::http
