// An exchange of the E2B dialect: the caller, the request id, and a count of what was answered.
//
// Wraps the server's exchange, so every answer carries x-request-id and lets pages of any origin
// read it, however it is given.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "control/identity.h"
#include "control/sandboxes.h"
#include "http/server.h"
#include "service/native/native_exchange.h"

namespace atl::service::e2b {

using native::while_client_waits;
using native::while_followed;

class E2bExchange final : public http::Exchange {
 public:
  // `context` is that of the task that serves it.
  E2bExchange(http::Exchange& inner, std::string request_id, TaskContext& context)
      : inner_(inner), request_id_(std::move(request_id)), timing_(context) {}

  const http::Request& request() const override { return inner_.request(); }
  http::Body& body() override { return inner_.body(); }
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
  Task<> client_gone() override { return inner_.client_gone(); }
  Event& server_stops() override { return inner_.server_stops(); }
  Task<std::unique_ptr<http::WebSocket>> accept_websocket(http::WebSocketOptions options) override;
  const std::string& peer() const override { return inner_.peer(); }

  Task<> respond_json(int status, const Json& body, http::Headers headers = {});
  // Nothing follows; says so with a Content-Length, without which clients wait for JSON.
  Task<> respond_empty(int status);

  // From here on answers are somebody else's: nothing of ours is added to them.
  void pass_through() { is_ours_ = false; }

  const std::string& request_id() const { return request_id_; }
  int status() const { return status_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // Of requests to the control plane; envd's have none.
  const control::Principal& principal() const { return principal_; }
  void authenticate_as(control::Principal principal) {
    principal_ = std::move(principal);
    authenticated();
  }
  // By the token of a sandbox, or by a key.
  void authenticated() const { timing_.authenticated(request()); }
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
  void add_usual(http::Headers& headers) const;

  http::Exchange& inner_;
  const std::string request_id_;
  const native::Timing timing_;
  control::Principal principal_;
  std::string sandbox_id_;
  std::optional<control::Sandboxes::Use> use_;
  bool is_ours_ = true;
  int status_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

// {"code":404,"message":"..."}: the code in the body is the status, clients decide by it. A failure
// of ours is told in full only to those who run the place.
http::Response error_response(const Error& error, bool tell_all, std::string_view request_id);
http::Response error_response(int status, std::string_view message);
// The status an error becomes.
int status_of(const Error& error);

}  // namespace atl::service::e2b
