#include "proxy/http/h1_client_side.h"

#include <charconv>

#include "base/strings.h"
#include "http/websocket_handshake.h"
#include "proxy/http/answer.h"
#include "proxy/http/fields.h"
#include "proxy/http/goodbye.h"
#include "proxy/http/limits.h"
#include "proxy/http/relay.h"

namespace atl::proxy::http {
namespace {

using atl::http::Framing;
using atl::http::Http1Head;
using atl::http::Http1Wire;

bool asks_for_websocket(const Http1Head& head) {
  if (head.method != "GET" || !atl::http::list_has_token(head.headers, "upgrade", "websocket")) {
    return false;
  }
  const atl::http::Request request{.method = head.method,
                                   .target = head.target,
                                   .path = {},
                                   .query = {},
                                   .headers = head.headers};
  return head.framing.kind == Framing::Kind::kNone &&
         atl::http::judge_websocket_request(request, head.minor_version).has_value();
}

void append_fields(std::string& text, const Headers& headers) {
  for (const auto& [name, value] : headers.lines()) {
    text.append(name).append(": ").append(value).append("\r\n");
  }
}

// The end of a chunk goes with its bytes: some clients wait for it.
void append_chunk(std::string& text, std::string_view bytes) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), bytes.size(), 16).ptr;
  text.reserve(text.size() + bytes.size() + 32);
  text.append(digits.begin(), end).append("\r\n").append(bytes).append("\r\n");
}

// Tells a client that broke the rules so, and lets it read that before the connection is reset.
Task<> refuse(Http1Wire& wire, io::Stream& stream, int status, std::string_view reason,
              std::string_view flow_id) {
  const auto answer = failure_answer(status, "bad_request", reason, flow_id);
  const auto head = concat("HTTP/1.1 ", status, " ", atl::http::status_text(status),
                           "\r\ncontent-type: application/json\r\nconnection: close\r\n"
                           "x-atoll-egress: denied\r\ncontent-length: ",
                           answer.body.size(), "\r\n\r\n");
  CO_TRY_DO(co_await wire.write(head, answer.body));
  co_return co_await say_goodbye(stream);
}

Task<> discard(io::Stream& stream) {
  std::array<char, 4096> scrap;
  for (std::size_t dropped = 0; dropped < kLingerBytes;) {
    CO_TRY(const auto got, co_await stream.read(scrap));
    if (got == 0) {
      break;
    }
    dropped += got;
  }
  co_return ok();
}

// Waits for the first byte with patience, for the rest of the head with less.
Task<bool> next_head(Http1Wire& wire, io::Stream& stream) {
  wire.parser().begin();
  if (!wire.has_input()) {
    const auto ready = co_await with_deadline(kIdleTime, stream.wait_readable());
    if (!ready) {
      co_return false;
    }
  }
  co_return co_await with_deadline(kHeadTime, wire.read_head());
}

}  // namespace

H1ClientSide::H1ClientSide(Http1Wire& wire, io::Stream& stream) : wire_(wire), stream_(stream) {
  Http1Head& head = wire.parser().head();
  head_.wants_websocket = asks_for_websocket(head);
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
  minor_version_ = head.minor_version;
  keep_alive_ = head.keep_alive;
}

Task<std::size_t> H1ClientSide::read(std::span<char> buffer) {
  return wire_.read_body(buffer);
}

const Headers& H1ClientSide::trailers() const {
  return wire_.parser().body().trailers();
}

Task<> H1ClientSide::inform(int status, Headers headers) {
  if (minor_version_ < 1 || started_) {
    co_return ok();
  }
  std::string text = concat("HTTP/1.1 ", status, " ", atl::http::status_text(status), "\r\n");
  append_fields(text, headers);
  text += "\r\n";
  co_return co_await wire_.write(text);
}

Task<> H1ClientSide::start(ResponseHead head) {
  started_ = true;
  // A client that is still sending when it is answered gets no second request in.
  keep_alive_ = keep_alive_ && wire_.parser().done();
  pending_ = concat("HTTP/1.1 ", head.status, " ", atl::http::status_text(head.status), "\r\n");
  append_fields(pending_, head.headers);
  if (!head.has_body) {
    coding_ = Coding::kNothing;
    if (head.length && head.status >= 200 && head.status != 204) {
      pending_ += concat("content-length: ", *head.length, "\r\n");
    }
  } else if (head.length) {
    coding_ = Coding::kLength;
    remaining_bytes_ = *head.length;
    pending_ += concat("content-length: ", *head.length, "\r\n");
  } else if (minor_version_ >= 1) {
    coding_ = Coding::kChunked;
    pending_ += "transfer-encoding: chunked\r\n";
  } else {
    coding_ = Coding::kUntilClose;
    keep_alive_ = false;
  }
  pending_ += keep_alive_ ? "\r\n" : "connection: close\r\n\r\n";
  co_return ok();
}

Task<> H1ClientSide::flush() {
  if (pending_.empty()) {
    co_return ok();
  }
  const auto text = std::exchange(pending_, {});
  co_return co_await wire_.write(text);
}

Result<> H1ClientSide::count(std::size_t bytes) {
  if (bytes > 0 && coding_ == Coding::kNothing) {
    return fail(Code::kInternal, "this answer has no body");
  }
  if (coding_ == Coding::kLength) {
    if (bytes > remaining_bytes_) {
      return fail(Code::kInternal, "more bytes than the answer announced");
    }
    remaining_bytes_ -= bytes;
  }
  return {};
}

Task<> H1ClientSide::write(std::string_view bytes) {
  if (bytes.empty()) {
    co_return co_await flush();
  }
  CO_TRY_DO(count(bytes.size()));
  std::string text = std::exchange(pending_, {});
  if (coding_ == Coding::kChunked) {
    append_chunk(text, bytes);
    bytes = {};
  }
  co_return co_await wire_.write(text, bytes);
}

Task<> H1ClientSide::finish(std::string_view rest, Headers trailers) {
  CO_TRY_DO(count(rest.size()));
  if (coding_ == Coding::kLength && remaining_bytes_ > 0) {
    co_return fail(Code::kUnavailable, "fewer bytes than the answer announced");
  }
  std::string text = std::exchange(pending_, {});
  if (coding_ == Coding::kChunked) {
    if (!rest.empty()) {
      append_chunk(text, std::exchange(rest, {}));
    }
    text += "0\r\n";
    append_fields(text, trailers);
    text += "\r\n";
  }
  CO_TRY_DO(co_await wire_.write(text, rest));
  finished_ = true;
  co_return ok();
}

Task<> H1ClientSide::gone() {
  if (!wire_.has_input()) {
    CO_TRY_DO(co_await stream_.wait_readable());
    const auto got = co_await wire_.fill();
    if (!got || *got == 0) {
      co_return ok();
    }
  }
  Event never;  // it sends its next request already: it is there
  co_return co_await never.wait();
}

Task<Upgraded> H1ClientSide::switch_protocols(ResponseHead head) {
  started_ = true;
  keep_alive_ = false;
  std::string text =
      "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n"
      "connection: upgrade\r\n";
  append_fields(text, head.headers);
  text += "\r\n";
  CO_TRY_DO(co_await wire_.write(text));
  co_return Upgraded{std::make_unique<atl::http::UpgradedStream>(wire_, stream_, nullptr, nullptr),
                     &stream_};
}

Task<> serve_http1(Conversation& conversation, io::Stream& stream) {
  Http1Wire wire{stream,
                 {.role = atl::http::Role::kRequest,
                  .limits = kHeadLimits,
                  .methods = atl::http::Methods::kAny,
                  .stall_timeout = kStallTime}};
  const std::string& flow_id = conversation.account->record.id;
  for (;;) {
    const auto arrived = co_await next_head(wire, stream);
    if (!arrived && wire.refusal()) {
      conversation.account->add_operation(concat("malformed request ", wire.refusal()->status));
      (void)co_await refuse(wire, stream, wire.refusal()->status, wire.refusal()->reason, flow_id);
      (void)co_await with_deadline(kLingerTime, discard(stream));
      co_return fail(arrived.error());
    }
    if (!arrived || !*arrived) {
      (void)co_await say_goodbye(stream);
      co_return ok();
    }
    H1ClientSide client{wire, stream};
    CO_TRY_DO(co_await relay(conversation, client));
    if (!client.may_go_on()) {
      if (client.finished()) {
        (void)co_await say_goodbye(stream);
        (void)co_await with_deadline(kLingerTime, discard(stream));
      }
      co_return ok();
    }
  }
}

}  // namespace atl::proxy::http
