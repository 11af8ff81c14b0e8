#include "service/e2b/e2b_exchange.h"

#include "base/strings.h"
#include "service/native/envelope.h"

namespace atl::service::e2b {

void E2bExchange::add_usual(http::Headers& headers) const {
  if (!is_ours_) {
    return;
  }
  headers.set("x-request-id", request_id_);
  if (inner_.request().headers.has("origin")) {
    headers.set("access-control-allow-origin", "*");
    headers.set("access-control-expose-headers", "*");
  }
}

Task<> E2bExchange::respond(http::Response response) {
  status_ = response.status;
  bytes_sent_ += response.body.size();
  add_usual(response.headers);
  return inner_.respond(std::move(response));
}

Task<> E2bExchange::start(int status, http::Headers headers, std::optional<std::uint64_t> length) {
  status_ = status;
  add_usual(headers);
  return inner_.start(status, std::move(headers), length);
}

Task<> E2bExchange::write(std::string_view bytes) {
  bytes_sent_ += bytes.size();
  return inner_.write(bytes);
}

Task<std::unique_ptr<http::WebSocket>> E2bExchange::accept_websocket(
    http::WebSocketOptions options) {
  CO_TRY(auto socket, co_await inner_.accept_websocket(std::move(options)));
  status_ = 101;
  co_return std::move(socket);
}

Task<> E2bExchange::respond_json(int status, const Json& body, http::Headers headers) {
  headers.set("Content-Type", "application/json");
  return respond({status, std::move(headers), body.dump()});
}

Task<> E2bExchange::respond_empty(int status) {
  return respond({status, {}, {}});
}

int status_of(const Error& error) {
  // It is being made: clients ask again after this one, and after no other.
  return error.reason == "template_not_ready" ? 503 : native::classify(error).status;
}

http::Response error_response(int status, std::string_view message) {
  const Json body = Json::object({{"code", status}, {"message", message}});
  return {status, {{"Content-Type", "application/json"}}, body.dump()};
}

http::Response error_response(const Error& error, bool tell_all, std::string_view request_id) {
  const int status = status_of(error);
  http::Response response = error_response(
      status, status == 500 && !tell_all
                  ? concat("something went wrong on the server; its log has the details under "
                           "request id ",
                           request_id)
                  : error.message);
  // Clients try again only when they are told when.
  if (status == 429 || status == 503) {
    response.headers.set("Retry-After", "1");
  }
  return response;
}

}  // namespace atl::service::e2b
