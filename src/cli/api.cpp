#include "cli/api.h"

#include "base/scope.h"
#include "base/strings.h"
#include "cli/api_error.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxErrorBytes = 64UL << 10;
constexpr std::size_t kMaxFrameBytes = 16UL << 20;

bool is_success(int status) {
  return status >= 200 && status < 300;
}

Task<Json> read_envelope(http::ClientResponse& response, const Endpoint& endpoint) {
  auto text = co_await http::read_all(response.body(), kMaxAnswerBytes);
  if (!text) {
    co_return fail(transport_error(std::move(text).error(), endpoint));
  }
  if (!is_success(response.status())) {
    co_return fail(error_from_answer(response.status(), *text));
  }
  auto json = Json::parse(*text);
  const Json* success = json ? json->find("success") : nullptr;
  if (success == nullptr || success->as_bool() == nullptr || !*success->as_bool()) {
    co_return fail(Code::kInternal,
                   concat(endpoint.url_text, " does not answer like an Atoll server"),
                   kReasonTransport);
  }
  const Json* data = json->find("data");
  co_return data == nullptr ? Json::object() : *data;
}

}  // namespace

Api::Api(io::Reactor& reactor, const Endpoint& endpoint)
    : endpoint_(endpoint), client_(reactor, endpoint.url, endpoint.tls.get()) {}

http::Headers Api::headers() const {
  http::Headers headers{{"Accept", "application/json"}, {"User-Agent", "atoll-cli"}};
  if (!endpoint_.key.reveal().empty()) {
    headers.add("Authorization", concat("Bearer ", endpoint_.key.reveal()));
  }
  return headers;
}

Task<Json> Api::call(std::string method, std::string path, std::optional<Json> body,
                     Duration deadline) {
  auto result = co_await with_deadline(
      deadline, call_now(std::move(method), std::move(path), std::move(body)));
  if (!result && result.error().code == Code::kDeadlineExceeded && result.error().reason.empty()) {
    co_return fail(transport_error(std::move(result).error(), endpoint_));
  }
  co_return std::move(result);
}

Task<Json> Api::call_now(std::string method, std::string path, std::optional<Json> body) {
  auto request_headers = headers();
  std::string text;
  if (body) {
    request_headers.add("Content-Type", "application/json");
    text = body->dump();
  }
  auto response = co_await client_.send(std::move(method), std::move(path),
                                        std::move(request_headers), std::move(text));
  if (!response) {
    co_return fail(transport_error(std::move(response).error(), endpoint_));
  }
  co_return co_await read_envelope(**response, endpoint_);
}

Task<std::unique_ptr<http::ClientResponse>> Api::open(std::string path) {
  auto request_headers = headers();
  request_headers.set("Accept", "*/*");
  auto response = co_await client_.send("GET", std::move(path), std::move(request_headers));
  if (!response) {
    co_return fail(transport_error(std::move(response).error(), endpoint_));
  }
  if (!is_success((*response)->status())) {
    auto text = co_await http::read_all((*response)->body(), kMaxErrorBytes);
    co_return fail(error_from_answer((*response)->status(), text ? *text : std::string{}));
  }
  co_return *std::move(response);
}

Task<std::unique_ptr<http::ClientResponse>> Api::open_upload(std::string path, http::Headers extra,
                                                             std::optional<std::uint64_t> length,
                                                             http::BodySource source) {
  auto request_headers = headers();
  request_headers.set("Accept", "*/*");
  request_headers.add("Content-Type", "application/octet-stream");
  for (const auto& [name, value] : extra.lines()) {
    request_headers.set(name, value);
  }
  auto response = co_await client_.send_stream("POST", std::move(path), std::move(request_headers),
                                               length, std::move(source));
  if (!response) {
    co_return fail(transport_error(std::move(response).error(), endpoint_));
  }
  if (!is_success((*response)->status())) {
    auto text = co_await http::read_all((*response)->body(), kMaxErrorBytes);
    co_return fail(error_from_answer((*response)->status(), text ? *text : std::string{}));
  }
  co_return *std::move(response);
}

Task<std::unique_ptr<http::WebSocket>> Api::open_socket(std::string path) {
  auto socket = co_await client_.connect_websocket(std::move(path), headers(),
                                                   {.max_message_bytes = kMaxFrameBytes});
  if (socket) {
    co_return *std::move(socket);
  }
  // An answer that is no 101 has its body as the message; anything else is the network's.
  const auto answer = Json::parse(socket.error().message);
  if (answer && answer->find("error") != nullptr) {
    co_return fail(
        error_from_answer(code_http_status(socket.error().code), socket.error().message));
  }
  co_return fail(transport_error(std::move(socket).error(), endpoint_));
}

Task<Json> Api::upload(std::string path, std::optional<std::uint64_t> length,
                       http::BodySource source) {
  auto request_headers = headers();
  request_headers.add("Content-Type", "application/octet-stream");
  auto response = co_await client_.send_stream("POST", std::move(path), std::move(request_headers),
                                               length, std::move(source));
  if (!response) {
    co_return fail(transport_error(std::move(response).error(), endpoint_));
  }
  co_return co_await read_envelope(**response, endpoint_);
}

std::string sandbox_path(std::string_view id, std::string_view rest) {
  return concat("/api/v1/sandboxes/", http::percent_encode(id), rest);
}

std::string context_path(std::string_view sandbox_id, std::string_view context_id,
                         std::string_view rest) {
  return concat(sandbox_path(sandbox_id), "/contexts/", http::percent_encode(context_id), rest);
}

std::string file_path(std::string_view sandbox_id, std::string_view verb, std::string_view path) {
  return concat(sandbox_path(sandbox_id), "/files", verb, "?path=", http::percent_encode(path));
}

std::string text_member(const Json& object, std::string_view key) {
  const Json* member = object.find(key);
  const auto* text = member == nullptr ? nullptr : member->as_string();
  return text == nullptr ? std::string{} : *text;
}

}  // namespace atl::cli
