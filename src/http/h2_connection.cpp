#include "http/h2_connection.h"

#include "base/log.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kReadBytes = std::size_t{32} * 1024;
constexpr std::size_t kWriteBytes = std::size_t{64} * 1024;
constexpr unsigned kReadsPerTurn = 16;
constexpr Duration kCloseTime = 2s;

}  // namespace

Http2Connection::Http2Connection(ServerCore& core, io::Stream& stream, const std::string& peer,
                                 std::string early)
    : core_(core),
      stream_(stream),
      peer_(peer),
      early_(std::move(early)),
      session_({core.limits.header_bytes, core.limits.header_count}, handlers_) {}

Task<> Http2Connection::serve() {
  core_.metrics.http2_connections.add();
  TaskContext& context = co_await current_context();
  idle_since_ = context.loop->now();
  Scope handlers{context};
  Scope writer{context};
  Scope idle{context};
  writer.spawn("http2 writer", write_loop());
  idle.spawn("http2 idle watch", watch_idle());
  if (core_.draining) {
    session_.go_away();
  }
  const auto read = co_await read_loop(handlers);
  if (!read) {
    LOG_DEBUG("HTTP/2 connection ended", {"error", read.error()});
  }
  if (session_.violated()) {
    core_.metrics.http2_violations.add();
  } else {
    session_.go_away();
  }
  session_.close_streams();
  (void)co_await handlers.join();
  stopping_ = true;
  wake_.set();
  (void)co_await idle.cancel_and_join();
  (void)co_await writer.join();
  co_return ok();
}

bool Http2Connection::over() const {
  return broken_ || expired_ || !session_.wants_more() || (core_.draining && handlers_ == 0);
}

Task<> Http2Connection::read_loop(Scope& handlers) {
  TaskContext& context = co_await current_context();
  std::string buffer(kReadBytes, '\0');
  auto fed = session_.feed(early_, context.loop->now());
  early_ = {};
  for (unsigned reads = 1;; ++reads) {
    for (auto& stream : session_.take_requests()) {
      ++handlers_;
      handlers.spawn("http2 request", handle(std::move(stream)));
    }
    wake_.set();
    if (!fed || over()) {
      co_return std::move(fed);
    }
    if (reads % kReadsPerTurn == 0) {
      CO_TRY_DO(co_await sleep_for(Duration::zero()));
    }
    CO_TRY(const bool ready, co_await wait_for_bytes());
    if (!ready) {
      continue;
    }
    CO_TRY(const auto got, co_await stream_.read(buffer));
    if (got == 0) {
      co_return ok();
    }
    core_.metrics.received_bytes.add(got);
    fed = session_.feed({buffer.data(), got}, context.loop->now());
  }
}

Task<bool> Http2Connection::wait_for_bytes() {
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel};
  waiting_ = &cancel;
  auto ready = co_await stream_.wait_readable().under(inner);
  waiting_ = nullptr;
  if (!ready && (outer.cancel->cancelled() || ready.error().code != Code::kCancelled)) {
    co_return fail(std::move(ready).error());
  }
  co_return ready.has_value();
}

void Http2Connection::wake_reader() {
  if (waiting_ != nullptr) {
    waiting_->cancel();
  }
}

Task<> Http2Connection::write_loop() {
  std::string out;
  for (;;) {
    out.clear();
    auto sent = session_.take_output(out, kWriteBytes);
    if (sent && out.empty()) {
      if (stopping_) {
        co_return ok();
      }
      wake_.clear();
      CO_TRY_DO(co_await wake_.wait());
      continue;
    }
    if (sent) {
      const auto deadline = stopping_ ? kCloseTime : core_.limits.stall_timeout;
      sent = co_await with_deadline(deadline, stream_.write(out));
    }
    if (!sent) {
      broken_ = true;
      session_.close_streams();
      wake_reader();
      LOG_DEBUG("HTTP/2 client does not read", {"error", sent.error()});
      co_return ok();
    }
    core_.metrics.sent_bytes.add(out.size());
    if (!session_.wants_more()) {
      wake_reader();  // a goodbye for a broken rule has gone out
    }
  }
}

Task<> Http2Connection::watch_idle() {
  TaskContext& context = co_await current_context();
  for (;;) {
    const auto until = idle_since_ + core_.limits.idle_timeout;
    const auto now = context.loop->now();
    if (handlers_ == 0 && now >= until) {
      expired_ = true;
      wake_reader();
      co_return ok();
    }
    CO_TRY_DO(co_await sleep_for(now < until ? until - now : core_.limits.idle_timeout));
  }
}

void Http2Connection::drain() {
  session_.go_away();
  wake_.set();
  std::vector<std::shared_ptr<WebSocketLink>> sockets;
  for (const auto& [id, stream] : session_.streams()) {
    if (stream->websocket) {
      sockets.push_back(stream->websocket);
    }
  }
  for (const auto& socket : sockets) {
    socket->go_away();
  }
  if (handlers_ == 0) {
    wake_reader();
  }
}

Task<> Http2Connection::handle(std::shared_ptr<Http2Stream> stream) {
  core_.metrics.http2_streams.add();
  core_.metrics.http2_streams_open.add(1);
  const auto refusal = stream->refusal;
  const TaskContext& context = co_await current_context();
  Trace trace{core_.reactor.now()};
  TaskContext traced{context.loop, context.cancel, &trace};
  Http2Exchange exchange{core_, session_, *stream, wake_, peer_, trace};
  Result<> handled;
  if (refusal) {
    core_.metrics.refusals.add();
    handled =
        co_await exchange.respond(error_response(refusal->status, "bad_request", refusal->reason));
  } else {
    handled = co_await core_.handler(exchange).under(traced);
    core_.metrics.observe(trace);
  }
  (void)co_await end_exchange(exchange, *stream, handled);
  core_.metrics.http2_streams_open.add(-1);
  idle_since_ = context.loop->now();
  if (--handlers_ == 0 && core_.draining) {
    wake_reader();
  }
  co_return ok();
}

Task<> Http2Connection::end_exchange(Http2Exchange& exchange, Http2Stream& stream,
                                     const Result<>& handled) {
  const TaskContext& here = co_await current_context();
  const bool cancelled = here.cancel->cancelled();
  if (stream.websocket) {
    core_.metrics.websockets_open.add(-1);
    if (!cancelled) {
      (void)co_await end_websocket(exchange, *stream.websocket, !handled);
    }
  } else if (!exchange.started() && !cancelled && !stream.closed) {
    (void)co_await exchange.respond(failure_response(exchange.request(), handled));
  }
  session_.abandon_input(stream);
  wake_.set();
  if (exchange.finished() && !stream.input_ended && !stream.closed && !cancelled) {
    // A client that is still sending may not look at an answer that comes with a reset.
    (void)co_await with_deadline(kCloseTime, exchange.client_gone());
  }
  if (!stream.closed && (!exchange.finished() || !stream.input_ended)) {
    // Half an answer must not look like a whole one; a whole one needs no more of the request.
    session_.reset(stream, !exchange.finished());
  }
  wake_.set();
  co_return ok();
}

Task<> Http2Connection::end_websocket(Http2Exchange& exchange, WebSocketLink& link, bool failed) {
  if (link.broken) {
    co_return ok();
  }
  if (!link.close_sent) {
    const std::uint16_t code = link.going_away ? 1001 : failed ? 1011 : 1000;
    const auto frame = encode_websocket_close(WebSocketRole::kServer, code, {});
    CO_TRY_DO(co_await exchange.write_output(frame, kCloseTime));
  }
  co_return co_await exchange.finish();
}

}  // namespace atl::http
