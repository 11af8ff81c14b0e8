#include "ingress/forwarder.h"

#include <charconv>

#include "base/strings.h"

namespace atl::ingress {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} * 1024;
constexpr int kMaxInterimAnswers = 16;
// A service that takes nothing of a request for so long gets no more: while we wait for it nobody
// would notice that the client has gone.
constexpr Duration kStallTimeout = std::chrono::seconds{60};

// How the request went out, seen from the task that waits for the answer.
struct Upload {
  Event finished;
  Result<> outcome;
  bool is_finished = false;
  // What the client did wrong, or the limit: nobody waits for an answer then.
  std::optional<Error> failure;
  CancelState* waiting = nullptr;
};

std::string framing_lines(const http::Body& body, const http::Request& request) {
  const auto length = body.length();
  if (!length) {
    return "transfer-encoding: chunked\r\n";
  }
  const bool usual =
      request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  return *length > 0 || usual ? concat("content-length: ", *length, "\r\n") : std::string{};
}

std::unexpected<Error> too_large(std::uint64_t max_bytes) {
  return fail(Code::kResourceExhausted, concat("the request has more than ", max_bytes, " bytes"),
              "request_too_large");
}

// As it is, or as a chunk; an empty one is the last.
Task<> send_piece(http::Http1Wire& wire, std::string_view piece, bool chunked) {
  if (!chunked) {
    co_return co_await wire.write(piece);
  }
  char line[20];
  char* end = std::to_chars(line, line + 16, piece.size(), 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  const std::string head{line, end};
  CO_TRY_DO(co_await wire.write(head, piece));
  co_return co_await wire.write("\r\n");
}

Task<> send_body(http::Body& body, http::Http1Wire& wire, const Forward& forward, Traffic& traffic,
                 Upload& upload) {
  const bool chunked = !body.length().has_value();
  std::string buffer(kPieceBytes, '\0');
  for (;;) {
    auto got = co_await body.read(buffer);
    if (!got) {
      upload.failure = std::move(got).error();
      upload.failure->reason = "request_broken";  // by the client, not by the service
      co_return fail(*upload.failure);
    }
    if (*got == 0 && !chunked) {
      co_return ok();
    }
    traffic.bytes_in += *got;
    if (forward.max_bytes > 0 && traffic.bytes_in > forward.max_bytes) {
      upload.failure = too_large(forward.max_bytes).error();
      co_return fail(*upload.failure);
    }
    const std::string_view piece{buffer.data(), *got};
    auto sent = co_await with_deadline(kStallTimeout, send_piece(wire, piece, chunked));
    if (!sent && sent.error().code == Code::kDeadlineExceeded) {
      upload.failure =
          Error{Code::kDeadlineExceeded, "the service does not take the request", "stalled"};
      co_return fail(*upload.failure);
    }
    CO_TRY_DO(std::move(sent));
    if (*got == 0) {
      co_return ok();
    }
  }
}

// Never fails by itself: the outcome is in `upload`.
Task<> send_request(http::Exchange& exchange, http::Http1Wire& wire, std::string head,
                    const Forward& forward, Traffic& traffic, Upload& upload) {
  upload.outcome = co_await wire.write(head);
  if (upload.outcome) {
    upload.outcome = co_await send_body(exchange.body(), wire, forward, traffic, upload);
  }
  upload.is_finished = true;
  upload.finished.set();
  if (upload.failure && upload.waiting != nullptr) {
    upload.waiting->cancel();
  }
  co_return ok();
}

bool is_repeatable(const http::Exchange& exchange, http::Body& body) {
  const auto& method = exchange.request().method;
  return body.length() == 0 && (method == "GET" || method == "HEAD" || method == "OPTIONS");
}

// The task ends with the client's patience, once the whole request is here.
Task<> watch_client(http::Exchange& exchange, Event& uploaded, CancelState& cancel) {
  CO_TRY_DO(co_await uploaded.wait());
  if (co_await exchange.client_gone()) {
    cancel.cancel();
  }
  co_return ok();
}

Task<> watch_server(http::Exchange& exchange, CancelState& cancel) {
  CO_TRY_DO(co_await exchange.server_stops().wait());
  cancel.cancel();
  co_return ok();
}

void ignore_errors(const char*, const Error&) {}

bool is_endless(const http::Headers& headers) {
  return to_lower(headers.get("content-type")).starts_with("text/event-stream");
}

std::optional<std::uint64_t> answer_length(const http::Http1Head& head, bool bodiless) {
  using Kind = http::Framing::Kind;
  if (bodiless) {
    return parse_u64(head.headers.get("content-length"));
  }
  return head.framing.kind == Kind::kLength || head.framing.kind == Kind::kNone
             ? std::optional{head.framing.length}
             : std::nullopt;
}

Task<> copy_body(http::Exchange& exchange, http::Http1Wire& wire, Traffic& traffic) {
  std::string buffer(kPieceBytes, '\0');
  for (;;) {
    CO_TRY(const auto got, co_await wire.read_body(buffer));
    if (got == 0) {
      co_return co_await exchange.finish();
    }
    traffic.bytes_out += got;
    CO_TRY_DO(co_await exchange.write({buffer.data(), got}));
  }
}

bool is_reusable(http::ClientConnection& connection, const Upload& upload) {
  auto& parser = connection.wire.parser();
  return upload.is_finished && upload.outcome && parser.head().keep_alive && parser.done() &&
         !connection.wire.has_input();
}

// Until the request fails, too.
Task<> wait_for_answer(http::ClientConnection& connection, const Forward& forward, Upload& upload) {
  if (upload.failure) {
    co_return fail(*upload.failure);
  }
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel};
  upload.waiting = &cancel;
  auto head = read_answer_head(connection, forward.method == "HEAD", false);
  auto reading = forward.timeout == Duration::zero()
                     ? std::move(head)
                     : with_deadline(forward.timeout, std::move(head));
  auto answered = co_await std::move(reading).under(inner);
  upload.waiting = nullptr;
  co_return std::move(answered);
}

// One attempt. False: the kept connection was dead, and nothing was lost.
Task<bool> attempt(http::Exchange& exchange, Upstreams& upstreams, const Forward& forward,
                   Traffic& traffic, Upload& upload, bool fresh) {
  CO_TRY(const std::string head, request_head(forward.method, forward.path, forward.fields,
                                              framing_lines(exchange.body(), exchange.request())));
  CO_TRY(auto taken, co_await upstreams.take(forward.upstream, fresh));
  http::ClientConnection& connection = *taken.connection;
  Scope sending{co_await current_context()};
  sending.on_error(ignore_errors);
  sending.spawn("upload", send_request(exchange, connection.wire, head, forward, traffic, upload));
  auto answered = co_await wait_for_answer(connection, forward, upload);
  if (!answered) {
    const bool stale = taken.reused && !connection.wire.parser().started() &&
                       answered.error().code == Code::kUnavailable &&
                       is_repeatable(exchange, exchange.body());
    (void)co_await sending.cancel_and_join();
    if (stale) {
      co_return false;
    }
    co_return fail(upload.failure ? *std::move(upload.failure) : std::move(answered).error());
  }
  auto sent = co_await send_answer(exchange, connection, forward, traffic);
  (void)co_await sending.cancel_and_join();
  CO_TRY_DO(std::move(sent));
  if (is_reusable(connection, upload)) {
    upstreams.park(forward.upstream, std::move(taken.connection));
  }
  co_return true;
}

Task<> relay(http::Exchange& exchange, Upstreams& upstreams, const Forward& forward,
             Traffic& traffic, Upload& upload) {
  if (forward.max_bytes > 0 && exchange.body().length().value_or(0) > forward.max_bytes) {
    co_return too_large(forward.max_bytes);
  }
  CO_TRY(const bool done, co_await attempt(exchange, upstreams, forward, traffic, upload, false));
  if (!done) {
    CO_TRY_DO(co_await attempt(exchange, upstreams, forward, traffic, upload, true));
  }
  co_return ok();
}

}  // namespace

Task<> read_answer_head(http::ClientConnection& connection, bool bodiless, bool may_switch) {
  http::Http1Wire& wire = connection.wire;
  for (int i = 0; i < kMaxInterimAnswers; ++i) {
    wire.parser().begin(bodiless);
    CO_TRY(const bool arrived, co_await wire.read_head());
    if (!arrived) {
      co_return fail(Code::kUnavailable, "the service closed the connection without an answer",
                     "closed");
    }
    const int status = wire.parser().head().status;
    if (status == 101 && may_switch) {
      co_return ok();
    }
    if (status == 101 || status > 599) {
      break;
    }
    if (status >= 200) {
      co_return ok();
    }
  }
  co_return fail(Code::kUnavailable, "the answer of the service is not HTTP", "malformed_message");
}

Task<> send_answer(http::Exchange& exchange, http::ClientConnection& connection,
                   const Forward& forward, Traffic& traffic) {
  const http::Http1Head& head = connection.wire.parser().head();
  const bool bodiless = forward.method == "HEAD";
  const auto length = answer_length(head, bodiless);
  const bool endless = is_endless(head.headers);
  http::Headers fields = response_fields(head.headers, forward.view);
  for (const auto& [name, value] : forward.extra.lines()) {
    fields.add(name, value);
  }
  traffic.status = head.status;
  CO_TRY_DO(co_await exchange.start(head.status, std::move(fields), length));
  if (!endless) {
    co_return co_await copy_body(exchange, connection.wire, traffic);
  }
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel};
  Scope watching{outer};
  watching.on_error(ignore_errors);
  watching.spawn("server watch", watch_server(exchange, cancel));
  auto copied = co_await copy_body(exchange, connection.wire, traffic).under(inner);
  (void)co_await watching.cancel_and_join();
  co_return std::move(copied);
}

Task<> forward_request(http::Exchange& exchange, Upstreams& upstreams, Forward forward,
                       Traffic& traffic) {
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel};
  Upload upload;
  Scope watching{outer};
  watching.on_error(ignore_errors);
  watching.spawn("client watch", watch_client(exchange, upload.finished, cancel));
  auto relayed = co_await relay(exchange, upstreams, forward, traffic, upload).under(inner);
  (void)co_await watching.cancel_and_join();
  co_return std::move(relayed);
}

}  // namespace atl::ingress
