#include <cstring>

#include "base/strings.h"
#include "proxy/adapters/adapters.h"
#include "proxy/adapters/injection.h"
#include "proxy/adapters/redis_commands.h"

namespace atl::proxy::adapters {
namespace {

constexpr std::size_t kMaxReplyBytes = 4096;

// The server's answer to our AUTH: one line.
Task<> log_in(io::Stream& upstream, const RedisCommands& commands) {
  std::string login = commands.login();
  auto sent = co_await upstream.write(login);
  ::explicit_bzero(login.data(), login.size());
  CO_TRY_DO(std::move(sent));
  Pending reply{upstream};
  while (!reply.bytes().ends_with("\r\n")) {
    CO_TRY_DO(co_await reply.more(kMaxReplyBytes));
  }
  if (reply.bytes() != "+OK\r\n") {
    co_return fail(Code::kUnauthenticated, "the server does not accept the stored credential");
  }
  co_return ok();
}

Task<> rewrite(io::Stream& client, io::Stream& upstream, RedisCommands& commands,
               FlowAccount& account) {
  std::string buffer(kRelayBytes, '\0');
  std::string out;
  for (;;) {
    CO_TRY(const std::size_t got, co_await client.read(buffer));
    if (got == 0) {
      co_return upstream.finish_writing();
    }
    out.clear();
    const auto fed = commands.feed(std::string_view{buffer}.substr(0, got), out);
    for (std::string& note : commands.take_notes()) {
      account.add_operation(std::move(note));
    }
    CO_TRY_DO(co_await upstream.write(out));
    CO_TRY_DO(fed);
  }
}

Task<> refuse(io::Stream& client, const Error& error) {
  std::string text = "-ERR atoll: ";
  append_printable(text, error.message);
  text += "\r\n";
  CO_TRY_DO(co_await client.write(text));
  co_return client.finish_writing();
}

Task<std::unique_ptr<io::Stream>> open(Surroundings& surroundings, const Connection& connection,
                                       const tls::Context* tls, const RedisCommands& commands) {
  CO_TRY(auto upstream, co_await dial(surroundings, connection, tls));
  CO_TRY_DO(co_await with_deadline(kGreetingTime, log_in(*upstream, commands)));
  co_return std::move(upstream);
}

Task<> serve_with(Surroundings& surroundings, Connection& connection, Injection injection) {
  CO_TRY(const auto tls, upstream_tls(surroundings, injection));
  RedisCommands commands{injection.material->username, injection.material->password};
  CO_TRY(const auto upstream, co_await open(surroundings, connection, tls.get(), commands));
  co_return co_await both(rewrite(*connection.client, *upstream, commands, *connection.account),
                          pass_on(*upstream, *connection.client));
}

}  // namespace

Task<> serve_redis(Surroundings& surroundings, Connection connection) {
  auto injection =
      co_await find_injection(surroundings, connection, egress::CredentialProtocol::kRedis,
                              egress::ProjectionKind::kUsernamePassword);
  if (injection && !*injection) {
    co_return co_await pass_untouched(surroundings, std::move(connection));
  }
  Result<> served;
  if (injection) {
    served = co_await serve_with(surroundings, connection, **std::move(injection));
  } else {
    served = fail(std::move(injection).error());
  }
  if (!served && served.error().code != Code::kCancelled) {
    (void)co_await refuse(*connection.client, served.error());
  }
  co_return std::move(served);
}

}  // namespace atl::proxy::adapters
