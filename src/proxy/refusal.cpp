#include "proxy/refusal.h"

#include "base/scope.h"
#include "base/strings.h"
#include "proxy/limits.h"

namespace atl::proxy {
namespace {

// A fatal "access denied" of TLS 1.2 and 1.3, which may stand where the server's hello would.
constexpr std::string_view kAccessDeniedAlert{"\x15\x03\x03\x00\x02\x02\x31", 7};
constexpr std::size_t kDrainBytes = std::size_t{16} << 10;

// A reset would take the answer away again, so the client is given time to read it and to close.
Task<> drain(Socket& client) {
  for (;;) {
    CO_TRY(const std::string ignored, co_await receive_some(client, kDrainBytes));
    if (ignored.empty()) {
      co_return ok();
    }
  }
}

}  // namespace

std::string refusal_text(const egress::FlowRecord& record) {
  return concat("Atoll refused this connection: ", record.reason,
                "\n\nrule:   ", record.rule.empty() ? "-" : record.rule,
                "\nset by: ", record.origin, "\nflow:   ", record.id, "\n\nFor more: atoll why ",
                record.id, "\n");
}

std::string refusal_bytes(const egress::Classified& contents, const egress::FlowRecord& record) {
  if (contents.protocol == egress::AppProtocol::kTls) {
    return std::string{kAccessDeniedAlert};
  }
  if (contents.protocol != egress::AppProtocol::kHttp || contents.http2) {
    return {};
  }
  const std::string body = refusal_text(record);
  return concat(
      "HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: ",
      body.size(), "\r\nx-atoll-flow: ", record.id,
      "\r\ncache-control: no-store\r\nconnection: close\r\n\r\n", body);
}

Task<> send_refusal(Socket& client, std::string bytes) {
  if (bytes.empty()) {
    client.reset_on_close();
    co_return ok();
  }
  // What does not fit at once is not worth waiting for.
  ::send(client.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(client.fd.get(), SHUT_WR);
  auto drained = co_await with_deadline(kFarewellTime, drain(client));
  if (!drained && drained.error().code == Code::kCancelled) {
    co_return fail(std::move(drained).error());
  }
  co_return ok();
}

}  // namespace atl::proxy
