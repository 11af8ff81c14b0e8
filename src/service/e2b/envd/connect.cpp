#include "service/e2b/envd/connect.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "service/e2b/envd/gzip.h"

namespace atl::service::e2b::envd {
namespace {

constexpr std::int64_t kDefaultKeepaliveSeconds = 90;
constexpr std::int64_t kMaxKeepaliveSeconds = 24L * 3600;

struct Row {
  Code code;
  std::string_view name;
  int status;
};
constexpr std::array<Row, 16> kCodes{{{Code::kCancelled, "canceled", 499},
                                      {Code::kUnknown, "unknown", 500},
                                      {Code::kInvalidArgument, "invalid_argument", 400},
                                      {Code::kDeadlineExceeded, "deadline_exceeded", 504},
                                      {Code::kNotFound, "not_found", 404},
                                      {Code::kAlreadyExists, "already_exists", 409},
                                      {Code::kPermissionDenied, "permission_denied", 403},
                                      {Code::kResourceExhausted, "resource_exhausted", 429},
                                      {Code::kFailedPrecondition, "failed_precondition", 400},
                                      {Code::kAborted, "aborted", 409},
                                      {Code::kOutOfRange, "out_of_range", 400},
                                      {Code::kUnimplemented, "unimplemented", 501},
                                      {Code::kInternal, "internal", 500},
                                      {Code::kUnavailable, "unavailable", 503},
                                      {Code::kDataLoss, "data_loss", 500},
                                      {Code::kUnauthenticated, "unauthenticated", 401}}};

const Row& row_of(Code code) {
  const auto row = std::ranges::find(kCodes, code, &Row::code);
  return row == kCodes.end() ? kCodes[1] : *row;
}

std::string_view content_type(CallFormat format) {
  if (format.streaming) {
    return format.codec == Codec::kJson ? "application/connect+json" : "application/connect+proto";
  }
  return format.codec == Codec::kJson ? "application/json" : "application/proto";
}

// As text: an answer that is an error has JSON whatever the codec.
Json error_json(const Error& error) {
  return Json::object({{"code", connect_code(error.code)}, {"message", error.message}});
}

// The user part of "Basic base64(user:password)".
Result<std::optional<std::string>> basic_user(std::string_view header) {
  constexpr std::string_view kScheme = "Basic ";
  if (header.size() < kScheme.size() ||
      !equals_ignore_case(header.substr(0, kScheme.size()), kScheme)) {
    return std::optional<std::string>{};
  }
  const auto decoded = base64_decode(trim(header.substr(kScheme.size())));
  if (!decoded) {
    return fail(Code::kUnauthenticated, "the Authorization header is malformed");
  }
  std::string user = decoded->substr(0, decoded->find(':'));
  return user.empty() ? std::optional<std::string>{} : std::optional{std::move(user)};
}

Task<std::string> read_whole(http::Body& body, std::size_t max_bytes) {
  auto text = co_await http::read_all(body, max_bytes);
  if (!text && text.error().reason == "request_too_large") {
    co_return fail(Code::kResourceExhausted,
                   concat("the message is larger than ", max_bytes, " bytes"));
  }
  co_return std::move(text);
}

}  // namespace

std::optional<CallFormat> call_format(const http::Headers& headers) {
  const auto header = headers.get("content-type");
  const std::string type = to_lower(trim(header.substr(0, header.find(';'))));
  for (const Codec codec : {Codec::kJson, Codec::kBinary}) {
    for (const bool streaming : {false, true}) {
      const CallFormat format{codec, streaming};
      if (type == content_type(format)) {
        return format;
      }
    }
  }
  return std::nullopt;
}

Result<Caller> read_caller(const http::Request& request, const SandboxTarget& target) {
  const http::Headers& headers = request.headers;
  Caller caller{.sandbox = target.sandbox, .user = target.user};
  TRY(auto user, basic_user(headers.get("authorization")));
  if (user) {
    caller.user = *std::move(user);
  }
  if (const auto timeout = headers.get("connect-timeout-ms"); !timeout.empty()) {
    const auto timeout_ms = parse_u64(timeout);
    if (!timeout_ms || timeout.size() > 10) {
      return fail(Code::kInvalidArgument,
                  concat("Connect-Timeout-Ms: \"", timeout, "\" is no time"));
    }
    // None is an expired one; the process is not to live for ever then.
    caller.timeout_ms = std::clamp<std::uint64_t>(*timeout_ms, 1, guest::kMaxTimeoutMs);
  }
  const auto interval = parse_i64(headers.get("keepalive-ping-interval"));
  caller.keepalive_interval = std::chrono::seconds{std::clamp<std::int64_t>(
      interval.value_or(kDefaultKeepaliveSeconds), 1, kMaxKeepaliveSeconds)};
  return caller;
}

std::string_view connect_code(Code code) {
  return row_of(code).name;
}

int connect_status(Code code) {
  return row_of(code).status;
}

bool is_sandbox_gone(const Error& error) {
  return error.reason == "guest_lost" || error.reason == "sandbox_not_running" ||
         error.reason == "sandbox_not_found";
}

Error told_error(Error error, const E2bExchange& exchange) {
  if (error.code == Code::kInternal || error.code == Code::kUnknown) {
    error.message = concat("something went wrong on the server; its log has the details under ",
                           "request id ", exchange.request_id());
  }
  return error;
}

Task<Json> read_request(E2bExchange& exchange, CallFormat format, const Message& message) {
  std::optional<GunzipBody> unpacked;
  if (equals_ignore_case(trim(exchange.request().headers.get("content-encoding")), "gzip")) {
    unpacked.emplace(exchange.body());
  }
  http::Body& content = unpacked ? static_cast<http::Body&>(*unpacked) : exchange.body();
  CO_TRY(const auto body, co_await read_whole(content, kMaxMessageBytes + kEnvelopeHeadBytes));
  if (!format.streaming) {
    co_return decode_message(message, format.codec, body);
  }
  EnvelopeDecoder decoder;
  decoder.feed(body);
  CO_TRY(const auto envelope, decoder.next());
  if (!envelope || decoder.partial()) {
    co_return fail(Code::kInvalidArgument, "the call must have exactly one message");
  }
  co_return decode_message(message, format.codec, envelope->message);
}

Task<> respond_message(E2bExchange& exchange, CallFormat format, const Message& message,
                       Json value) {
  std::string body = encode_message(message, format.codec, value);
  if (format.streaming) {
    body = encode_envelope(0, body) + encode_envelope(kEndFlag, "{}");
  }
  co_return co_await exchange.respond(
      {200, {{"Content-Type", std::string{content_type(format)}}}, std::move(body)});
}

Task<> respond_error(E2bExchange& exchange, CallFormat format, Error error) {
  if (is_sandbox_gone(error)) {
    co_return co_await exchange.respond(error_response(502, "The sandbox was not found"));
  }
  const Json body = error_json(told_error(std::move(error), exchange));
  if (format.streaming) {
    co_return co_await exchange.respond(
        {200,
         {{"Content-Type", std::string{content_type(format)}}},
         encode_envelope(kEndFlag, Json::object({{"error", body}}).dump())});
  }
  co_return co_await exchange.respond(
      {connect_status(error.code), {{"Content-Type", "application/json"}}, body.dump()});
}

Task<> AnswerStream::send(Json value) {
  return send_envelope(0, encode_message(message_, codec_, value));
}

Task<> AnswerStream::end() {
  CO_TRY_DO(co_await send_envelope(kEndFlag, "{}"));
  co_return co_await exchange_.finish();
}

Task<> AnswerStream::end_with(Error error) {
  const Json body = error_json(told_error(std::move(error), exchange_));
  CO_TRY_DO(co_await send_envelope(kEndFlag, Json::object({{"error", body}}).dump()));
  co_return co_await exchange_.finish();
}

Task<> AnswerStream::keep_alive(Duration interval, Json message) {
  for (;;) {
    CO_TRY_DO(co_await sleep_for(interval));
    if (std::exchange(quiet_, true)) {
      // Not broken off in the middle by whoever has something to say at last.
      CO_TRY_DO(co_await shielded(send(message)));
    }
  }
}

Task<> AnswerStream::send_envelope(std::uint8_t flags, std::string message) {
  while (busy_) {
    free_.clear();
    CO_TRY_DO(co_await free_.wait());
  }
  busy_ = true;
  auto sent = co_await write(encode_envelope(flags, message));
  busy_ = false;
  quiet_ = false;
  free_.set();
  co_return std::move(sent);
}

Task<> AnswerStream::write(std::string envelope) {
  if (!exchange_.started()) {
    CO_TRY_DO(co_await exchange_.start(200,
                                       {{"Content-Type", std::string{content_type({codec_, true})}},
                                        {"Cache-Control", "no-store"}},
                                       std::nullopt));
  }
  co_return co_await exchange_.write(envelope);
}

}  // namespace atl::service::e2b::envd
