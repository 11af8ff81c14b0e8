#include "http/client_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/random.h"
#include "base/strings.h"
#include "http/websocket_handshake.h"
#include "tls/stream.h"

namespace atl::http {
namespace {

constexpr std::size_t kMaxErrorBytes = std::size_t{64} * 1024;

bool is_framing_field(std::string_view name) {
  return equals_ignore_case(name, "host") || equals_ignore_case(name, "content-length") ||
         equals_ignore_case(name, "transfer-encoding");
}

Code code_of_status(int status) {
  switch (status) {
    case 400:
      return Code::kInvalidArgument;
    case 401:
      return Code::kUnauthenticated;
    case 403:
      return Code::kPermissionDenied;
    case 404:
      return Code::kNotFound;
    case 409:
      return Code::kFailedPrecondition;
    case 429:
      return Code::kResourceExhausted;
    default:
      return status >= 500 ? Code::kUnavailable : Code::kInternal;
  }
}

// Why the server did not switch protocols.
Task<> explain_refusal(Http1Wire& wire) {
  const int status = wire.parser().head().status;
  std::string body;
  std::string buffer(4096, '\0');
  while (body.size() < kMaxErrorBytes) {
    const auto got = co_await wire.read_body(buffer);
    if (!got || *got == 0) {
      break;
    }
    body.append(buffer, 0, *got);
  }
  co_return fail(code_of_status(status),
                 body.empty() ? concat("the server answered ", status) : std::move(body),
                 "websocket_refused");
}

}  // namespace

bool ClientConnection::has_news() const {
  char byte;
  const ssize_t got = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

Task<std::unique_ptr<ClientConnection>> connect_client(io::Reactor& reactor, const Url& url,
                                                       const tls::Context* tls) {
  const std::string& dialled = url.address.empty() ? url.host : url.address;
  CO_TRY(auto plain, co_await io::connect_tcp(reactor, dialled, url.port));
  const int fd = plain->fd();
  if (!url.secure) {
    co_return std::make_unique<ClientConnection>(std::move(plain), fd, false);
  }
  if (tls == nullptr) {
    co_return fail(Code::kInvalidArgument, "https needs to know which certificates to trust");
  }
  CO_TRY(auto secured, co_await tls::TlsStream::connect(std::move(plain), *tls, url.host));
  co_return std::make_unique<ClientConnection>(std::move(secured), fd, true);
}

std::string host_field(const Url& url) {
  const bool is_v6 = url.host.find(':') != std::string::npos;
  const std::string name = is_v6 ? concat("[", url.host, "]") : url.host;
  return url.port == (url.secure ? 443 : 80) ? name : concat(name, ":", url.port);
}

Result<std::string> make_request_head(const Url& url, std::string_view method,
                                      std::string_view path, const Headers& headers,
                                      std::string_view framing) {
  const auto in_line = [](char c) { return c > 0x20 && c < 0x7F; };
  if (!is_token(method) || !path.starts_with('/') || !std::ranges::all_of(path, in_line)) {
    return fail(Code::kInvalidArgument, "the method or the path of a request is malformed");
  }
  std::string head =
      concat(method, " ", url.base_path, path, " HTTP/1.1\r\nhost: ", host_field(url), "\r\n");
  for (const auto& [name, value] : headers.lines()) {
    if (!is_token(name) || !is_field_value(value)) {
      return fail(Code::kInvalidArgument, "a request header has characters that are not allowed");
    }
    if (!is_framing_field(name)) {
      head += concat(name, ": ", value, "\r\n");
    }
  }
  head += concat(framing, "\r\n");
  return head;
}

Task<std::unique_ptr<WebSocket>> upgrade_to_websocket(std::unique_ptr<ClientConnection> connection,
                                                      Url url, std::string path, Headers headers,
                                                      WebSocketOptions options) {
  const std::string key = base64_encode(random_bytes(16));
  std::string lines = concat(
      "upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n"
      "sec-websocket-key: ",
      key, "\r\n");
  if (!options.protocol.empty()) {
    lines += concat("sec-websocket-protocol: ", options.protocol, "\r\n");
  }
  CO_TRY(const auto head, make_request_head(url, "GET", path, headers, lines));
  Http1Wire& wire = connection->wire;
  CO_TRY_DO(co_await wire.write(head));
  wire.parser().begin();
  CO_TRY(const bool arrived, co_await wire.read_head());
  if (!arrived) {
    co_return fail(Code::kUnavailable, "the server closed the connection without an answer");
  }
  const Http1Head& answer = wire.parser().head();
  if (answer.status != 101) {
    CO_TRY_DO(co_await explain_refusal(wire));
  }
  if (!list_has_token(answer.headers, "upgrade", "websocket") ||
      !list_has_token(answer.headers, "connection", "upgrade") ||
      answer.headers.get("sec-websocket-accept") != websocket_accept(key) ||
      answer.headers.has("sec-websocket-extensions")) {
    co_return fail(Code::kUnavailable, "the server's answer is not a WebSocket handshake");
  }
  const std::shared_ptr<ClientConnection> owner = std::move(connection);
  auto stream =
      std::make_unique<UpgradedStream>(owner->wire, *owner->stream, nullptr, nullptr, owner);
  co_return std::make_unique<WebSocket>(std::move(stream), WebSocketRole::kClient,
                                        std::move(options));
}

}  // namespace atl::http
