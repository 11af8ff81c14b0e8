#include "http/cors.h"

#include <algorithm>

#include "base/strings.h"
#include "http/http1_gate.h"

namespace atl::http {
namespace {

constexpr std::size_t kMaxOrigins = 64;
constexpr std::string_view kMethods = "GET, HEAD, POST, PUT, PATCH, DELETE";
// A star does not cover authorization.
constexpr std::string_view kRequestHeaders =
    "authorization, content-type, x-api-key, x-request-id, idempotency-key, range, if-match, "
    "if-none-match, if-range, last-event-id, accept, x-registry-auth, x-atoll-timing";

bool is_origin(std::string_view text) {
  const auto rest = text.starts_with("https://")  ? text.substr(8)
                    : text.starts_with("http://") ? text.substr(7)
                                                  : std::string_view{};
  return !rest.empty() && rest.find_first_of("/?#@ ,\t\"") == std::string_view::npos &&
         is_field_value(rest);
}

bool is_preflight(const Request& request) {
  return request.method == "OPTIONS" && request.headers.has("origin") &&
         request.headers.has("access-control-request-method");
}

class CorsExchange final : public Exchange {
 public:
  CorsExchange(Exchange& inner, Headers extra) : inner_(inner), extra_(std::move(extra)) {}

  const Request& request() const override { return inner_.request(); }
  Body& body() override { return inner_.body(); }
  Task<> respond(Response response) override {
    add_to(response.headers);
    return inner_.respond(std::move(response));
  }
  Task<> start(int status, Headers headers, std::optional<std::uint64_t> length) override {
    add_to(headers);
    return inner_.start(status, std::move(headers), length);
  }
  Task<> write(std::string_view bytes) override { return inner_.write(bytes); }
  bool reserve_file(std::string_view owner) override { return inner_.reserve_file(owner); }
  void release_file() override { inner_.release_file(); }
  Task<> send_file(FilePart part) override { return inner_.send_file(std::move(part)); }
  Task<> finish() override { return inner_.finish(); }
  bool started() const override { return inner_.started(); }
  Task<> client_gone() override { return inner_.client_gone(); }
  Event& server_stops() override { return inner_.server_stops(); }
  Task<std::unique_ptr<WebSocket>> accept_websocket(WebSocketOptions options) override {
    return inner_.accept_websocket(std::move(options));
  }
  const std::string& peer() const override { return inner_.peer(); }

 private:
  void add_to(Headers& headers) const {
    for (const auto& [name, value] : extra_.lines()) {
      headers.add(name, value);
    }
  }

  Exchange& inner_;
  const Headers extra_;
};

Task<> handle_with_cors(Exchange& exchange, const CorsPolicy& policy, const Handler& inner) {
  const Request& request = exchange.request();
  auto headers = cors_headers(policy, request.headers.get("origin"));
  if (is_preflight(request) && !headers.lines().empty()) {
    headers.add("access-control-allow-methods", kMethods);
    headers.add("access-control-allow-headers", kRequestHeaders);
    headers.add("access-control-max-age", "86400");
    co_return co_await exchange.respond({204, std::move(headers), {}});
  }
  CorsExchange wrapped{exchange, std::move(headers)};
  co_return co_await inner(wrapped);
}

}  // namespace

Result<std::optional<CorsPolicy>> parse_cors_policy(std::string_view text) {
  if (text == "none") {
    return std::nullopt;
  }
  CorsPolicy policy;
  if (text == "*") {
    return policy;
  }
  for (const auto piece : split(text, ',')) {
    const auto origin = trim(piece);
    if (!is_origin(origin) || policy.origins.size() == kMaxOrigins) {
      return fail(Code::kInvalidArgument,
                  concat("\"", origin, "\" is no origin; write for example https://app.example, ",
                         "several with commas, * for any or none"));
    }
    policy.origins.emplace_back(origin);
  }
  return policy;
}

Headers cors_headers(const CorsPolicy& policy, std::string_view origin) {
  Headers headers;
  if (origin.empty()) {
    return headers;
  }
  if (policy.origins.empty()) {
    headers.add("access-control-allow-origin", "*");
  } else if (std::ranges::find(policy.origins, origin) != policy.origins.end()) {
    headers.add("access-control-allow-origin", origin);
    headers.add("vary", "origin");
  } else {
    return headers;
  }
  headers.add("access-control-expose-headers", "*");
  return headers;
}

Handler with_cors(CorsPolicy policy, Handler inner) {
  return [policy = std::move(policy), inner = std::move(inner)](Exchange& exchange) {
    return handle_with_cors(exchange, policy, inner);
  };
}

}  // namespace atl::http
