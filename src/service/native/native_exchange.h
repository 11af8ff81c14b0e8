// An exchange of the native API: the caller, the request id, and a count of what was answered.
//
// Wraps the server's exchange, so every answer carries x-request-id however it is given, and the
// line in the log tells what really went out.
#pragma once

#include "control/identity.h"
#include "control/sandboxes.h"
#include "http/server.h"

namespace atl::service::native {

// Tells the client where the time went, if it asks ("x-atoll-timing: 1") and has shown who it is:
// to strangers our clocks are none of their business.
class Timing {
 public:
  explicit Timing(TaskContext& context) : context_(context) {}
  void authenticated(const http::Request& request) const;

 private:
  TaskContext& context_;
};

class NativeExchange final : public http::Exchange {
 public:
  // `context` is that of the task that serves it.
  NativeExchange(http::Exchange& inner, std::string request_id, TaskContext& context)
      : inner_(inner), request_id_(std::move(request_id)), timing_(context) {}

  const http::Request& request() const override { return inner_.request(); }
  http::Body& body() override { return body_ ? *body_ : inner_.body(); }
  Task<> respond(http::Response response) override;
  Task<> start(int status, http::Headers headers, std::optional<std::uint64_t> length) override;
  Task<> write(std::string_view bytes) override;
  bool reserve_file(std::string_view owner) override { return inner_.reserve_file(owner); }
  void release_file() override { inner_.release_file(); }
  Task<> send_file(FilePart part) override {
    part.sent = &bytes_sent_;
    return inner_.send_file(std::move(part));
  }
  Task<> finish() override { return inner_.finish(); }
  bool started() const override { return inner_.started(); }
  // While the answer is still to be remembered, a client that leaves has not gone for good: it may
  // come again for what its request led to.
  Task<> client_gone() override;
  Event& server_stops() override { return inner_.server_stops(); }
  Task<std::unique_ptr<http::WebSocket>> accept_websocket(http::WebSocketOptions options) override;
  const std::string& peer() const override { return inner_.peer(); }

  // From here on the body is read from `text`, which somebody has read before.
  void replace_body(std::string text);
  // Keeps a copy of what respond() answers, or of what remember() says instead.
  void record_into(http::Response* copy) { copy_ = copy; }
  bool is_recorded() const { return copy_ != nullptr; }
  // What a repetition of this request is to get, when the answer itself is a stream.
  void remember(http::Response response) {
    if (copy_ != nullptr) {
      *copy_ = std::move(response);
    }
  }
  const std::string& request_id() const { return request_id_; }
  int status() const { return status_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // REQUIRES: authenticated, which every handler under /api/v1 is.
  const control::Principal& principal() const { return principal_; }
  void authenticate_as(control::Principal principal) {
    principal_ = std::move(principal);
    timing_.authenticated(request());
  }
  // Which sandbox this is about, for the log.
  const std::string& sandbox_id() const { return sandbox_id_; }
  void concerns(std::string sandbox_id) { sandbox_id_ = std::move(sandbox_id); }
  // The sandbox is in use as long as this exchange lives.
  void keep(std::optional<control::Sandboxes::Use> use) {
    if (use) {
      use_.emplace(*std::move(use));
    }
  }

 private:
  http::Exchange& inner_;
  const std::string request_id_;
  const Timing timing_;
  control::Principal principal_;
  std::string sandbox_id_;
  std::optional<control::Sandboxes::Use> use_;
  std::unique_ptr<http::Body> body_;
  http::Response* copy_ = nullptr;
  int status_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

// The client's own id when it is sane ([A-Za-z0-9._-]{1,64}), else a new one.
std::string choose_request_id(const http::Request& request);

// Runs `task`; when the client goes away meanwhile, cancels it. The request body must have been
// read. Not for use while answering.
Task<> cancel_when_client_gone(http::Exchange& exchange, CancelState& cancel);
template <class T>
Task<T> while_client_waits(http::Exchange& exchange, Task<T> task) {
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel, outer.trace};
  Scope watching{outer};
  watching.spawn("client watch", cancel_when_client_gone(exchange, cancel));
  auto result = co_await std::move(task).under(inner);
  (void)co_await watching.cancel_and_join();
  co_return std::move(result);
}

// The same for an answer that is followed without an end: it also ends when the server stops, with
// kUnavailable. Broken off and not finished, so that no client takes it for the whole; it goes on
// from where it was with the next server.
Task<> cancel_when_server_stops(http::Exchange& exchange, CancelState& cancel);
Error server_stops_error();
template <class T>
Task<T> while_followed(http::Exchange& exchange, Task<T> task) {
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel, outer.trace};
  Scope watching{outer};
  watching.spawn("server watch", cancel_when_server_stops(exchange, cancel));
  auto result = co_await while_client_waits(exchange, std::move(task)).under(inner);
  (void)co_await watching.cancel_and_join();
  if (!result && exchange.server_stops().is_set()) {
    co_return fail(server_stops_error());
  }
  co_return std::move(result);
}

}  // namespace atl::service::native
