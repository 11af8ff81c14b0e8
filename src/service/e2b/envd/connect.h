// The Connect protocol on an exchange: which codec, one request, one answer or a stream of them,
// and what an Error becomes.
//
// A unary call answers with the status of its code. A streaming call answers 200 whatever happens
// and says how it ended in its last envelope, because clients read errors of streams only there. A
// sandbox that is gone is no error of a call: before the answer has begun it is a 502, as from a
// router; later the connection breaks off, and clients then ask for the health of the sandbox.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/scope.h"
#include "service/e2b/e2b_exchange.h"
#include "service/e2b/envd/envelope.h"
#include "service/e2b/envd/message_codec.h"
#include "service/e2b/sandbox_target.h"

namespace atl::service::e2b::envd {

struct CallFormat {
  Codec codec = Codec::kJson;
  bool streaming = false;
};
// By the Content-Type; nothing when it is none of Connect's.
std::optional<CallFormat> call_format(const http::Headers& headers);

// Who calls, and what the headers of the call say.
struct Caller {
  control::SandboxRef sandbox;
  std::string user;
  // How long the call may take, and with Start how long the process may live; 0: for ever.
  std::uint64_t timeout_ms = 0;
  Duration keepalive_interval{};
};
Result<Caller> read_caller(const http::Request& request, const SandboxTarget& target);

// "not_found", as Connect spells it.
std::string_view connect_code(Code code);
int connect_status(Code code);
// The sandbox does not answer any more.
bool is_sandbox_gone(const Error& error);
// For clients: without what is only for those who run the place.
Error told_error(Error error, const E2bExchange& exchange);

// The whole body as one message; of a streaming call, its only envelope.
Task<Json> read_request(E2bExchange& exchange, CallFormat format, const Message& message);
Task<> respond_message(E2bExchange& exchange, CallFormat format, const Message& message,
                       Json value);
Task<> respond_error(E2bExchange& exchange, CallFormat format, Error error);

// The answer of a streaming call. Two tasks may send: the call, and the keepalives.
class AnswerStream {
 public:
  AnswerStream(E2bExchange& exchange, Codec codec, const Message& message)
      : exchange_(exchange), codec_(codec), message_(message) {}

  Task<> send(Json value);
  Task<> send_encoded(std::string message) { return send_envelope(0, std::move(message)); }
  Codec codec() const { return codec_; }
  // The last envelope.
  Task<> end();
  Task<> end_with(Error error);
  // Sends `message` whenever nothing was sent for that long; until cancelled.
  Task<> keep_alive(Duration interval, Json message);

 private:
  Task<> send_envelope(std::uint8_t flags, std::string message);
  Task<> write(std::string envelope);

  E2bExchange& exchange_;
  const Codec codec_;
  const Message& message_;
  bool busy_ = false;
  bool quiet_ = true;
  Event free_;
};

}  // namespace atl::service::e2b::envd
