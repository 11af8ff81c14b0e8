#include "http/server_exchange.h"

#include <charconv>

#include "base/strings.h"

namespace atl::http {
namespace {

// Chunks up to this size are copied into one write with their framing.
constexpr std::size_t kCopiedChunkBytes = std::size_t{16} * 1024;

bool is_bodiless(int status) {
  return status == 204 || status == 304;
}

std::string chunk_line(std::size_t size) {
  char text[20];
  char* end = std::to_chars(text, text + 16, size, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  return {text, end};
}

// Framing is ours to say; a handler that names these fields does not get two of them.
bool is_framing_field(std::string_view name) {
  return equals_ignore_case(name, "content-length") ||
         equals_ignore_case(name, "transfer-encoding") || equals_ignore_case(name, "connection") ||
         equals_ignore_case(name, "date");
}

}  // namespace

ServerExchange::ServerExchange(ServerCore& core, Http1Wire& wire, io::Stream& stream,
                               const std::string& peer, Trace& trace, int socket)
    : core_(core), wire_(wire), stream_(stream), peer_(peer), trace_(trace), socket_(socket) {
  Http1Head& head = wire.parser().head();
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
  minor_version_ = head.minor_version;
  continue_awaited_ = head.expects_continue;
  keep_alive_ = head.keep_alive;
}

Task<std::size_t> ServerExchange::read_body(std::span<char> buffer) {
  if (continue_awaited_ && state_ == State::kOpen) {
    continue_awaited_ = false;
    // A client that already sends its body anyway does not need the invitation.
    if (!wire_.has_input()) {
      CO_TRY_DO(co_await wire_.write("HTTP/1.1 100 Continue\r\n\r\n"));
    }
  }
  auto got = co_await wire_.read_body(buffer);
  if (!got) {
    keep_alive_ = false;
    if (got.error().code == Code::kDeadlineExceeded) {
      co_return fail(Code::kDeadlineExceeded, "the client stopped sending the request body",
                     std::string{kClientStalled});
    }
  }
  co_return std::move(got);
}

void ServerExchange::decide_keep_alive(const Headers& headers) {
  const bool body_read = wire_.parser().done();
  if (core_.draining || wire_.refusal() || (continue_awaited_ && !body_read) ||
      equals_ignore_case(headers.get("connection"), "close") || coding_ == Coding::kUntilClose) {
    keep_alive_ = false;
  }
}

Result<std::string> ServerExchange::make_head(int status, const Headers& headers,
                                              std::optional<std::uint64_t> length) {
  if (status < 200 || status > 599) {
    return fail(Code::kInternal, concat("a response cannot have the status ", status));
  }
  const bool bodiless = is_bodiless(status) || request_.method == "HEAD";
  coding_ = bodiless             ? Coding::kNothing
            : length             ? Coding::kLength
            : minor_version_ < 1 ? Coding::kUntilClose
                                 : Coding::kChunked;
  remaining_bytes_ = length.value_or(0);
  decide_keep_alive(headers);
  std::string head = concat("HTTP/1.1 ", status, " ", status_text(status), "\r\n");
  head += core_.date_line();
  for (const auto& [name, value] : headers.lines()) {
    if (!is_token(name) || !is_field_value(value)) {
      return fail(Code::kInternal, "a response header has characters that are not allowed");
    }
    if (!is_framing_field(name)) {
      head += concat(name, ": ", value, "\r\n");
    }
  }
  if (length && !is_bodiless(status)) {
    head += concat("content-length: ", *length, "\r\n");
  } else if (coding_ == Coding::kChunked) {
    head += "transfer-encoding: chunked\r\n";
  }
  trace_.mark(Step::kEncode, core_.reactor.now());
  if (trace_.reported()) {
    head += concat(kTimingHeader, ": ", trace_.render(), "\r\n");
  }
  head += keep_alive_ ? "\r\n" : "connection: close\r\n\r\n";
  return head;
}

// A failed or cancelled write leaves the wire in an unknown position: nothing may follow.
Task<> ServerExchange::send(std::string_view first, std::string_view second) {
  return sending(wire_.write(first, second));
}

Task<> ServerExchange::sending(Task<> writing) {
  const State before = std::exchange(state_, State::kBroken);
  auto sent = co_await std::move(writing);
  if (!sent) {
    keep_alive_ = false;
    if (sent.error().code == Code::kDeadlineExceeded) {
      co_return fail(Code::kDeadlineExceeded, "the client stopped reading the response",
                     std::string{kClientStalled});
    }
    co_return std::move(sent);
  }
  state_ = before;
  co_return ok();
}

Task<> ServerExchange::respond(Response response) {
  if (state_ != State::kOpen) {
    co_return fail(Code::kInternal, "a response was already started");
  }
  CO_TRY(const auto head, make_head(response.status, response.headers, response.body.size()));
  core_.metrics.count_response(response.status);
  state_ = State::kStreaming;
  CO_TRY_DO(co_await send(head, coding_ == Coding::kNothing ? std::string_view{} : response.body));
  state_ = State::kFinished;
  co_return ok();
}

Task<> ServerExchange::start(int status, Headers headers, std::optional<std::uint64_t> length) {
  if (state_ != State::kOpen) {
    co_return fail(Code::kInternal, "a response was already started");
  }
  CO_TRY(const auto head, make_head(status, headers, length));
  core_.metrics.count_response(status);
  state_ = State::kStreaming;
  co_return co_await send(head);
}

Task<> ServerExchange::write(std::string_view bytes) {
  if (state_ != State::kStreaming) {
    co_return fail(state_ == State::kBroken ? Code::kUnavailable : Code::kInternal,
                   "the response is not open for writing");
  }
  if (bytes.empty() || coding_ == Coding::kNothing) {
    co_return ok();
  }
  if (coding_ == Coding::kLength) {
    if (bytes.size() > remaining_bytes_) {
      state_ = State::kBroken;
      co_return fail(Code::kInternal, "more bytes than the response announced");
    }
    remaining_bytes_ -= bytes.size();
  }
  co_return co_await send_body(bytes);
}

Task<> ServerExchange::send_body(std::string_view bytes) {
  if (coding_ != Coding::kChunked) {
    co_return co_await send(bytes);
  }
  std::string line = chunk_line(bytes.size());
  if (bytes.size() <= kCopiedChunkBytes) {
    line.append(bytes).append("\r\n");
    co_return co_await send(line);
  }
  CO_TRY_DO(co_await send(line, bytes));
  co_return co_await send("\r\n");
}

// Encrypted bytes are made by us, so there is nothing that the kernel could send as it lies there.
bool ServerExchange::reserve_file(std::string_view owner) {
  if (file_place_ == nullptr && core_.files != nullptr && core_.tls == nullptr) {
    file_place_ = core_.files->reserve(std::string{owner});
  }
  return file_place_ != nullptr;
}

Task<> ServerExchange::send_file(FilePart part) {
  if (file_place_ == nullptr || state_ != State::kStreaming || coding_ != Coding::kLength ||
      part.length > remaining_bytes_) {
    co_return fail(Code::kInternal, "no file can be sent here");
  }
  remaining_bytes_ -= part.length;
  co_return co_await sending(core_.files->send(*file_place_, socket_,
                                               {.file = std::move(part.file),
                                                .offset = part.offset,
                                                .length = part.length,
                                                .stall_timeout = core_.limits.stall_timeout,
                                                .sent_bytes = &core_.metrics.sent_bytes,
                                                .sent = part.sent}));
}

Task<> Exchange::send_file(FilePart) {
  co_return fail(Code::kInternal, "no file can be sent here");
}

Task<> ServerExchange::finish() {
  if (state_ != State::kStreaming) {
    co_return fail(state_ == State::kBroken ? Code::kUnavailable : Code::kInternal,
                   "the response is not open for finishing");
  }
  if (coding_ == Coding::kLength && remaining_bytes_ > 0) {
    state_ = State::kBroken;
    co_return fail(Code::kInternal, "fewer bytes than the response announced");
  }
  if (coding_ == Coding::kChunked) {
    CO_TRY_DO(co_await send("0\r\n\r\n"));
  }
  state_ = State::kFinished;
  co_return ok();
}

Task<> ServerExchange::client_gone() {
  if (!wire_.parser().done()) {
    co_return fail(Code::kFailedPrecondition, "read the request body before watching the client");
  }
  if (!wire_.has_input()) {
    CO_TRY_DO(co_await stream_.wait_readable());
    auto got = co_await wire_.fill();  // does not wait: something is there
    if (!got && got.error().code == Code::kCancelled) {
      co_return fail(std::move(got).error());
    }
    if (!got || *got == 0) {
      co_return ok();
    }
  }
  // The client has sent its next request already, so it is still there. Behind that its end cannot
  // be seen: whoever writes the answer will notice.
  Event never;
  co_return co_await never.wait();
}

Task<std::unique_ptr<WebSocket>> Exchange::accept_websocket(WebSocketOptions) {
  co_return fail(Code::kFailedPrecondition, "this connection cannot carry a WebSocket");
}

Task<std::unique_ptr<WebSocket>> ServerExchange::accept_websocket(WebSocketOptions options) {
  if (state_ != State::kOpen) {
    co_return fail(Code::kInternal, "a response was already started");
  }
  CO_TRY(const auto accept, judge_websocket_request(request_, minor_version_));
  CO_TRY(const auto head, make_websocket_answer(request_, accept, options.protocol));
  keep_alive_ = false;
  state_ = State::kStreaming;
  CO_TRY_DO(co_await send(head));
  state_ = State::kFinished;
  core_.metrics.websockets.add();
  core_.metrics.websockets_open.add(1);
  websocket_ = std::make_shared<WebSocketLink>();
  websocket_->going_away = core_.draining;
  auto stream = std::make_unique<UpgradedStream>(wire_, stream_, &core_.metrics.received_bytes,
                                                 &core_.metrics.sent_bytes);
  co_return std::make_unique<WebSocket>(std::move(stream), WebSocketRole::kServer,
                                        std::move(options), websocket_);
}

}  // namespace atl::http
