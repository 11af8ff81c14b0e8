// The client inside is let in by any name and password, or none; the SOCKS server outside gets the
// stored ones.
#include <cstring>

#include "proxy/adapters/adapters.h"
#include "proxy/adapters/injection.h"
#include "proxy/adapters/socks5_server.h"

namespace atl::proxy::adapters {
namespace {

using namespace std::string_view_literals;

Task<> greet_client(io::Stream& stream, Pending& client) {
  for (;;) {
    CO_TRY(const auto greeting, read_socks5_greeting(client.bytes()));
    if (!greeting) {
      CO_TRY_DO(co_await client.more(kMaxSocks5GreetingBytes));
      continue;
    }
    client.drop(greeting->consumed);
    if (greeting->without_login) {
      co_return co_await stream.write("\x05\x00"sv);
    }
    if (!greeting->with_login) {
      co_return fail(Code::kInvalidArgument, "the client offers no way to log in that we know");
    }
    break;
  }
  CO_TRY_DO(co_await stream.write("\x05\x02"sv));
  for (;;) {
    CO_TRY(const auto size, read_socks5_login(client.bytes()));
    if (size) {
      client.drop(*size);
      co_return co_await stream.write("\x01\x00"sv);
    }
    CO_TRY_DO(co_await client.more(kMaxSocks5LoginBytes));
  }
}

Task<> log_in(io::Stream& upstream, const egress::Material& material) {
  CO_TRY(std::string login, socks5_login(material.username, material.password));
  CO_TRY_DO(co_await upstream.write("\x05\x01\x02"sv));
  Pending reply{upstream};
  CO_TRY(const auto method, co_await reply.exactly(2));
  if (method != "\x05\x02"sv) {
    co_return fail(Code::kUnauthenticated, "the SOCKS server does not take name and password");
  }
  auto sent = co_await upstream.write(login);
  ::explicit_bzero(login.data(), login.size());
  CO_TRY_DO(std::move(sent));
  CO_TRY(const auto outcome, co_await reply.exactly(2));
  if (outcome != "\x01\x00"sv) {
    co_return fail(Code::kUnauthenticated,
                   "the SOCKS server does not accept the stored credential");
  }
  co_return ok();
}

Task<> forward_request(Pending& client, io::Stream& upstream, FlowAccount& account) {
  for (;;) {
    CO_TRY(auto request, read_socks5_request(client.bytes()));
    if (request) {
      account.add_operation(std::move(request->text));
      co_return co_await upstream.write(client.take());
    }
    CO_TRY_DO(co_await client.more(kMaxSocks5RequestBytes));
  }
}

Task<> serve_with(Surroundings& surroundings, Connection& connection, Injection injection,
                  bool& opened) {
  CO_TRY(const auto tls, upstream_tls(surroundings, injection));
  CO_TRY(const auto upstream, co_await dial(surroundings, connection, tls.get()));
  CO_TRY_DO(co_await with_deadline(kGreetingTime, log_in(*upstream, *injection.material)));
  Pending client{*connection.client};
  CO_TRY_DO(co_await with_deadline(kGreetingTime, greet_client(*connection.client, client)));
  opened = true;
  CO_TRY_DO(co_await forward_request(client, *upstream, *connection.account));
  co_return co_await relay(*connection.client, *upstream);
}

}  // namespace

Task<> serve_socks5(Surroundings& surroundings, Connection connection) {
  auto injection =
      co_await find_injection(surroundings, connection, egress::CredentialProtocol::kSocks5,
                              egress::ProjectionKind::kUsernamePassword);
  if (injection && !*injection) {
    co_return co_await pass_untouched(surroundings, std::move(connection));
  }
  bool opened = false;
  Result<> served;
  if (injection) {
    served = co_await serve_with(surroundings, connection, **std::move(injection), opened);
  } else {
    served = fail(std::move(injection).error());
  }
  if (!served && served.error().code != Code::kCancelled && !opened) {
    (void)co_await connection.client->write("\x05\xFF"sv);
    (void)connection.client->finish_writing();
  }
  co_return std::move(served);
}

}  // namespace atl::proxy::adapters
