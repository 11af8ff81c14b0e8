#include "proxy/http/h1_server_side.h"

#include <array>
#include <charconv>

#include "base/strings.h"
#include "http/websocket_handshake.h"
#include "proxy/http/fields.h"
#include "proxy/http/limits.h"
#include "proxy/http/upstream_pool.h"

namespace atl::proxy::http {

using atl::http::Framing;
using atl::http::Http1Head;

H1Upstream::H1Upstream(std::unique_ptr<io::Stream> s, std::string k, UpstreamPlace p)
    : place(std::move(p)),
      stream(std::move(s)),
      key(std::move(k)),
      wire(*stream, {.role = atl::http::Role::kResponse, .limits = kHeadLimits}) {}

H1ServerSide::H1ServerSide(UpstreamPool& pool, std::unique_ptr<H1Upstream> connection)
    : pool_(pool), connection_(std::move(connection)) {
  ++connection_->requests;
}

// A connection is used again only when both messages are complete and nothing came that nobody
// asked for.
H1ServerSide::~H1ServerSide() {
  if (connection_ && sent_ && keep_alive_ && connection_->wire.parser().done() &&
      !connection_->wire.has_input()) {
    pool_.give_back(std::move(connection_));
  }
}

Task<> H1ServerSide::start(const RequestHead& head) {
  method_ = head.method;
  pending_ = concat(head.method, " ", head.target, " HTTP/1.1\r\nhost: ", head.authority, "\r\n");
  for (const auto& [name, value] : head.headers.lines()) {
    if (!atl::http::is_token(name) || !atl::http::is_field_value(value)) {
      co_return fail(Code::kInvalidArgument, "a header field cannot be sent as it is");
    }
    pending_.append(name).append(": ").append(value).append("\r\n");
  }
  const auto is_text = [](char c) { return c > 0x20 && c < 0x7F; };
  if (!atl::http::is_token(head.method) || !std::ranges::all_of(head.target, is_text)) {
    co_return fail(Code::kInvalidArgument, "the request line cannot be sent as it is");
  }
  if (head.wants_websocket) {
    pending_ += "upgrade: websocket\r\nconnection: upgrade\r\n";
  } else if (head.accepts_trailers) {
    pending_ += "te: trailers\r\nconnection: te\r\n";
  }
  if (head.has_body && !head.length) {
    chunked_ = true;
    pending_ += "transfer-encoding: chunked\r\n";
  } else if (head.has_body || head.method == "POST" || head.method == "PUT" ||
             head.method == "PATCH") {
    remaining_bytes_ = head.has_body ? *head.length : 0;
    pending_ += concat("content-length: ", *remaining_bytes_, "\r\n");
  }
  pending_ += "\r\n";
  connection_->wire.parser().begin(head.method == "HEAD");
  co_return ok();
}

Task<> H1ServerSide::flush(std::string_view bytes) {
  const auto text = std::exchange(pending_, {});
  co_return co_await connection_->wire.write(text, bytes);
}

Task<> H1ServerSide::write(std::string_view bytes) {
  if (bytes.empty()) {
    co_return ok();
  }
  if (!chunked_) {
    if (bytes.size() > remaining_bytes_.value_or(0)) {
      co_return fail(Code::kInternal, "more bytes than the request announced");
    }
    *remaining_bytes_ -= bytes.size();
    co_return co_await flush(bytes);
  }
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), bytes.size(), 16).ptr;
  pending_.append(digits.begin(), end).append("\r\n").append(bytes).append("\r\n");
  co_return co_await flush({});
}

Task<> H1ServerSide::finish(Headers trailers) {
  if (remaining_bytes_.value_or(0) > 0) {
    co_return fail(Code::kUnavailable, "fewer bytes than the request announced");
  }
  if (chunked_) {
    pending_ += "0\r\n";
    for (const auto& [name, value] : trailers.lines()) {
      pending_.append(name).append(": ").append(value).append("\r\n");
    }
    pending_ += "\r\n";
  }
  if (!pending_.empty()) {
    CO_TRY_DO(co_await flush({}));
  }
  sent_ = true;
  co_return ok();
}

Task<ResponseHead> H1ServerSide::read_head() {
  auto& wire = connection_->wire;
  if (wire.parser().has_head()) {
    wire.parser().begin(method_ == "HEAD");  // the one before was a 1xx
  }
  CO_TRY(const bool arrived, co_await wire.read_head());
  if (!arrived) {
    co_return fail(Code::kUnavailable, "the server closed the connection without an answer",
                   "closed");
  }
  Http1Head& head = wire.parser().head();
  ResponseHead answer{.status = head.status, .headers = std::move(head.headers)};
  const bool says_length = answer.headers.has("content-length");
  const auto said = parse_u64(answer.headers.get("content-length"));
  answer.has_body = head.framing.kind != Framing::Kind::kNone;
  if (head.framing.kind == Framing::Kind::kLength) {
    answer.length = head.framing.length;
  } else if (!answer.has_body && says_length) {
    answer.length = said;
  }
  keep_alive_ = head.keep_alive && head.status >= 200;
  if (head.status != 101) {
    strip_hop_fields(answer.headers);
  }
  co_return answer;
}

Task<std::size_t> H1ServerSide::read(std::span<char> buffer) {
  return connection_->wire.read_body(buffer);
}

const Headers& H1ServerSide::trailers() const {
  return connection_->wire.parser().body().trailers();
}

Task<Upgraded> H1ServerSide::take_stream() {
  const std::shared_ptr<H1Upstream> owner = std::move(connection_);
  io::Stream& below = *owner->stream;
  co_return Upgraded{
      std::make_unique<atl::http::UpgradedStream>(owner->wire, below, nullptr, nullptr, owner),
      &below};
}

}  // namespace atl::proxy::http
