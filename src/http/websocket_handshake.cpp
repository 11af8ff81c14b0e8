#include "http/websocket_handshake.h"

#include <cstring>

#include "base/strings.h"

namespace atl::http {
namespace {

std::unexpected<Error> refuse(std::string why) {
  return fail(Code::kInvalidArgument, std::move(why), "websocket_handshake");
}

}  // namespace

Result<std::string> judge_websocket_request(const Request& request, int minor_version) {
  const Headers& headers = request.headers;
  if (request.method != "GET" || minor_version < 1) {
    return refuse("a WebSocket is asked for with GET and HTTP/1.1");
  }
  if (!list_has_token(headers, "upgrade", "websocket") ||
      !list_has_token(headers, "connection", "upgrade")) {
    return refuse("this is a WebSocket: send \"Connection: Upgrade\" and \"Upgrade: websocket\"");
  }
  if (headers.count("sec-websocket-version") != 1 || headers.get("sec-websocket-version") != "13") {
    return refuse("the only WebSocket version understood is 13");
  }
  const auto accept = headers.count("sec-websocket-key") == 1
                          ? websocket_accept(headers.get("sec-websocket-key"))
                          : std::nullopt;
  if (!accept) {
    return refuse("Sec-WebSocket-Key is not 16 bytes in base64");
  }
  if (headers.has("content-length") || headers.has("transfer-encoding")) {
    return refuse("a request for a WebSocket has no body");
  }
  return *accept;
}

Result<std::string> make_websocket_answer(const Request& request, std::string_view accept,
                                          std::string_view protocol) {
  std::string head = concat(
      "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
      "sec-websocket-accept: ",
      accept, "\r\n");
  if (!protocol.empty() && list_has_token(request.headers, "sec-websocket-protocol", protocol)) {
    if (!is_token(protocol)) {
      return fail(Code::kInternal, "a subprotocol is not a token");
    }
    head += concat("sec-websocket-protocol: ", protocol, "\r\n");
  }
  return head + "\r\n";
}

Task<std::size_t> UpgradedStream::read(std::span<char> buffer) {
  if (!rest_.empty()) {
    const auto size = std::min(rest_.size(), buffer.size());
    std::memcpy(buffer.data(), rest_.data(), size);
    rest_.erase(0, size);
    co_return size;
  }
  CO_TRY(const auto got, co_await stream_.read(buffer));
  if (received_bytes_ != nullptr) {
    received_bytes_->add(got);
  }
  co_return got;
}

Task<> UpgradedStream::write(std::string_view first, std::string_view second) {
  CO_TRY_DO(co_await stream_.write(first, second));
  if (sent_bytes_ != nullptr) {
    sent_bytes_->add(first.size() + second.size());
  }
  co_return ok();
}

Task<> UpgradedStream::wait_readable() {
  if (!rest_.empty()) {
    co_return ok();
  }
  co_return co_await stream_.wait_readable();
}

}  // namespace atl::http
