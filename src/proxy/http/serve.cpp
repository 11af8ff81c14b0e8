#include "proxy/http/serve.h"

#include "base/strings.h"
#include "proxy/http/conversation.h"
#include "proxy/http/h1_client_side.h"
#include "proxy/http/h2_sides.h"
#include "proxy/http/limits.h"
#include "tls/stream.h"

namespace atl::proxy::http {
namespace {

// The name in the hello is the one that was decided on, or there is none in either place.
Result<> check_server_name(const egress::Flow& flow, const std::string& asked) {
  const auto name = asked.empty() ? std::string{} : egress::normal_host_name(asked).value_or("?");
  if (name != flow.name && !(name.empty() && flow.name.empty())) {
    return fail(Code::kPermissionDenied,
                "the TLS client asks for another name than the one that was decided on");
  }
  return {};
}

// Answers in the place of the server. With ECH the outer name is the name: the inner hello cannot
// be read by anybody but the server, so what is served is what the outer one asked for.
Task<std::unique_ptr<tls::TlsStream>> open_tls(Surroundings& surroundings, Connection& connection) {
  if (connection.first.hello) {
    CO_TRY_DO(check_server_name(connection.flow, connection.first.hello->server_name));
  }
  const auto rules = connection.session->rules();
  if (!rules) {
    co_return fail(Code::kPermissionDenied, "the sandbox has no network policy");
  }
  const auto name =
      connection.flow.name.empty() ? connection.flow.address.text() : connection.flow.name;
  CO_TRY(const auto leaf,
         co_await Memory::of(surroundings).leaves.leaf(surroundings, rules->sandbox_id, name));
  CO_TRY(auto stream,
         co_await with_deadline(kHandshakeTime,
                                tls::TlsStream::accept(std::move(connection.client), leaf)));
  // Again: a second hello, after a retry request, may name somebody else.
  CO_TRY_DO(check_server_name(connection.flow, stream->server_name()));
  co_return std::move(stream);
}

}  // namespace

Task<> serve(Surroundings& surroundings, Connection connection) {
  const bool secure = connection.first.protocol == egress::AppProtocol::kTls;
  bool http2 = connection.first.http2;
  std::unique_ptr<io::Stream> stream;
  connection.account->record.intercepted = true;
  if (secure) {
    CO_TRY(auto opened, co_await open_tls(surroundings, connection));
    http2 = opened->protocol() == "h2";
    stream = std::move(opened);
  } else {
    stream = std::move(connection.client);
  }
  Scope background{co_await current_context()};
  background.on_error([](const char*, const Error&) {});  // a server's end is no news
  Result<> served;
  {
    Conversation conversation{
        .surroundings = surroundings,
        .memory = Memory::of(surroundings),
        .flow = std::move(connection.flow),
        .session = connection.session,
        .account = connection.account,
        .secure = secure,
        .http2 = http2,
        .upstreams = {surroundings, Memory::of(surroundings), connection.session,
                      connection.account, background},
    };
    if (http2) {
      served = co_await serve_http2(conversation, std::move(stream));
    } else {
      served = co_await serve_http1(conversation, *stream);
    }
  }
  (void)co_await background.cancel_and_join();
  co_return std::move(served);
}

}  // namespace atl::proxy::http
