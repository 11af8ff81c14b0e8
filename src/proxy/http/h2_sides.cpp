#include "proxy/http/h2_sides.h"

#include <cstring>

#include "base/strings.h"
#include "proxy/http/answer.h"
#include "proxy/http/fields.h"
#include "proxy/http/limits.h"
#include "proxy/http/relay.h"

namespace atl::proxy::http {
namespace {

using atl::http::Framing;

std::unexpected<Error> gone_error() {
  return fail(Code::kUnavailable, "the request was cancelled by the other side", "closed");
}

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

Task<> wait(Event& event, Duration deadline) {
  if (deadline == Duration::zero()) {
    return wait_for(event);
  }
  return with_deadline(deadline, wait_for(event));
}

Task<std::size_t> read_input(H2Link& link, H2Stream& stream, std::span<char> buffer,
                             Duration deadline) {
  while (stream.input_bytes() == 0 && !stream.input_ended && !stream.closed) {
    stream.input_changed.clear();
    CO_TRY_DO(co_await wait(stream.input_changed, deadline));
  }
  const auto size = std::min(buffer.size(), stream.input_bytes());
  if (size == 0) {
    if (!stream.input_ended || stream.refusal) {
      co_return gone_error();
    }
    co_return std::size_t{0};
  }
  std::memcpy(buffer.data(), stream.input.data() + stream.taken_bytes, size);
  link.session().consume(stream, size);
  link.wake();  // the window may open
  co_return size;
}

// Waits until nghttp2 has taken all of it, or the stream is over. The view never outlives the call.
Task<> write_output(H2Link& link, H2Stream& stream, std::string_view bytes, Duration deadline) {
  if (stream.closed) {
    co_return gone_error();
  }
  stream.output = bytes;
  link.session().resume(stream);
  link.wake();
  Result<> waited;
  std::size_t left = bytes.size();
  const auto is_taken = [&stream] {
    return stream.output.empty() && (!stream.output_ended || stream.output_done);
  };
  while (waited && !stream.closed && !is_taken()) {
    stream.output_changed.clear();
    waited = co_await wait(stream.output_changed, deadline);
    const bool moved = stream.output.size() < std::exchange(left, stream.output.size());
    if (!waited && waited.error().code == Code::kDeadlineExceeded && moved) {
      waited = {};  // slow, but reading
    }
  }
  const bool taken = is_taken();
  stream.output = {};
  if (waited && !taken) {
    co_return gone_error();
  }
  co_return std::move(waited);
}

// One request, and a reset when it could not be answered whole.
Task<> serve_stream(Conversation& conversation, std::shared_ptr<H2Link> link,
                    std::shared_ptr<H2Stream> stream) {
  H2ClientSide client{*link, *stream};
  if (stream->refusal) {
    conversation.account->add_operation(concat("malformed request ", stream->refusal->status));
    (void)co_await send_answer(
        client, failure_answer(stream->refusal->status, "bad_request", stream->refusal->reason,
                               conversation.account->record.id));
  } else {
    (void)co_await relay(conversation, client);
  }
  if (!stream->closed && (!client.finished() || !stream->input_ended)) {
    link->session().reset(*stream, client.finished() ? H2Reset::kDone : H2Reset::kBroken);
  }
  link->session().handler_ended();
  link->wake();
  co_return ok();
}

}  // namespace

Task<> serve_http2(Conversation& conversation, std::unique_ptr<io::Stream> stream) {
  Scope requests{co_await current_context()};
  const auto link = std::make_shared<H2Link>(H2Role::kServer, std::move(stream));
  auto served = co_await H2Link::run(link, [&](std::shared_ptr<H2Stream> request) {
    requests.spawn("http2 request", serve_stream(conversation, link, std::move(request)));
  });
  (void)co_await requests.cancel_and_join();
  co_return std::move(served);
}

H2ClientSide::H2ClientSide(H2Link& link, H2Stream& stream) : link_(link), stream_(stream) {
  auto& head = stream.head;
  head_.accepts_trailers = atl::http::list_has_token(head.headers, "te", "trailers");
  head_.method = std::move(head.method);
  head_.target = std::move(head.target);
  head_.headers = std::move(head.headers);
  head_.authority = head_.headers.get("host");
  strip_hop_fields(head_.headers);
  head_.has_body = head.framing.kind != Framing::Kind::kNone;
  if (head.framing.kind != Framing::Kind::kChunked) {
    head_.length = head.framing.length;
  }
  head_.expects_continue = head.expects_continue;
}

Task<std::size_t> H2ClientSide::read(std::span<char> buffer) {
  return read_input(link_, stream_, buffer, kStallTime);
}

Task<> H2ClientSide::inform(int status, Headers headers) {
  CO_TRY_DO(link_.session().inform(stream_, status, headers));
  link_.wake();
  co_return ok();
}

Task<> H2ClientSide::start(ResponseHead head) {
  started_ = true;
  has_body_ = head.has_body;
  CO_TRY_DO(link_.session().respond(stream_, head));
  co_return ok();
}

Task<> H2ClientSide::flush() {
  link_.wake();
  co_return ok();
}

Task<> H2ClientSide::write(std::string_view bytes) {
  if (bytes.empty()) {
    return flush();
  }
  return write_output(link_, stream_, bytes, kStallTime);
}

Task<> H2ClientSide::finish(std::string_view rest, Headers trailers) {
  if (has_body_) {
    stream_.output_trailers = std::move(trailers);
    stream_.output_ended = true;
    CO_TRY_DO(co_await write_output(link_, stream_, rest, kStallTime));
  }
  link_.wake();
  finished_ = true;
  co_return ok();
}

Task<> H2ClientSide::gone() {
  co_return co_await stream_.gone.wait();
}

Task<Upgraded> H2ClientSide::switch_protocols(ResponseHead) {
  co_return fail(Code::kUnimplemented, "HTTP/2 has no upgrade");
}

H2ServerSide::H2ServerSide(std::shared_ptr<H2Link> link, bool secure, bool fresh)
    : link_(std::move(link)), secure_(secure), fresh_(fresh) {}

H2ServerSide::~H2ServerSide() {
  if (stream_ && !stream_->closed) {
    stream_->output = {};
    link_->session().reset(*stream_, H2Reset::kCancel);
    link_->wake();
  }
}

Task<> H2ServerSide::start(const RequestHead& head) {
  CO_TRY(stream_, link_->session().request(head, secure_));
  has_body_ = head.has_body;
  link_->wake();
  begun_.set();
  co_return ok();
}

Task<> H2ServerSide::write(std::string_view bytes) {
  if (bytes.empty()) {
    co_return ok();
  }
  co_return co_await write_output(*link_, *stream_, bytes, Duration::zero());
}

Task<> H2ServerSide::finish(Headers trailers) {
  if (!has_body_) {
    co_return ok();
  }
  stream_->output_trailers = std::move(trailers);
  stream_->output_ended = true;
  co_return co_await write_output(*link_, *stream_, {}, Duration::zero());
}

Task<ResponseHead> H2ServerSide::read_head() {
  if (!stream_) {
    CO_TRY_DO(co_await begun_.wait());
  }
  while (stream_->answers.empty()) {
    if (stream_->refusal) {
      co_return fail(Code::kUnavailable, concat("the server's answer: ", stream_->refusal->reason));
    }
    if (stream_->closed) {
      co_return fail(Code::kUnavailable, "the server reset the request", "closed");
    }
    stream_->input_changed.clear();
    CO_TRY_DO(co_await stream_->input_changed.wait());
  }
  ResponseHead head = std::move(stream_->answers.front());
  stream_->answers.erase(stream_->answers.begin());
  co_return head;
}

Task<std::size_t> H2ServerSide::read(std::span<char> buffer) {
  return read_input(*link_, *stream_, buffer, Duration::zero());
}

bool H2ServerSide::has_ready_bytes() const {
  return stream_->input_bytes() > 0;
}

bool H2ServerSide::has_ended() const {
  return stream_->input_ended && stream_->input_bytes() == 0 && !stream_->refusal;
}

const Headers& H2ServerSide::trailers() const {
  return stream_->trailers;
}

Task<Upgraded> H2ServerSide::take_stream() {
  co_return fail(Code::kUnimplemented, "HTTP/2 has no upgrade");
}

}  // namespace atl::proxy::http
