// The client inside is let in without a password (its own, if it has one, is never asked for); the
// server outside is logged in to with the stored one. After that nothing is looked at.
#include "base/random.h"
#include "base/strings.h"
#include "proxy/adapters/adapters.h"
#include "proxy/adapters/injection.h"
#include "proxy/adapters/postgres_login.h"
#include "proxy/adapters/postgres_messages.h"
#include "tls/stream.h"

namespace atl::proxy::adapters {
namespace {

using Kind = PostgresStartup::Kind;

constexpr std::size_t kNonceBytes = 18;

// The client's startup; requests for encryption before it are declined, inside nobody listens.
Task<PostgresStartup> read_startup(io::Stream& stream, Pending& client) {
  for (unsigned declined = 0;;) {
    CO_TRY(auto startup, read_postgres_startup(client.bytes()));
    if (!startup) {
      CO_TRY_DO(co_await client.more(kMaxPostgresStartupBytes));
      continue;
    }
    if (startup->kind == Kind::kCancel) {
      co_return *std::move(startup);  // its bytes stay: they go as they are
    }
    client.drop(startup->consumed);
    if (startup->kind == Kind::kStart) {
      co_return *std::move(startup);
    }
    if (++declined > 2) {
      co_return fail(Code::kInvalidArgument, "too many requests for encryption");
    }
    CO_TRY_DO(co_await stream.write("N"));
  }
}

Task<std::unique_ptr<io::Stream>> open(Surroundings& surroundings, const Connection& connection,
                                       const tls::Context* tls) {
  CO_TRY(auto stream, co_await dial(surroundings, connection, nullptr));
  if (tls == nullptr) {
    co_return std::move(stream);
  }
  constexpr std::uint32_t kRequestBytes = 8;
  CO_TRY_DO(co_await stream->write(
      concat(postgres_u32(kRequestBytes), postgres_u32(kPostgresTlsRequest))));
  char answer = '\0';
  CO_TRY_DO(co_await io::read_exactly(*stream, {&answer, 1}));
  if (answer != 'S') {
    co_return fail(Code::kUnavailable, "the server does not encrypt");
  }
  const std::string name = upstream_name(connection);
  CO_TRY(auto encrypted, co_await tls::TlsStream::connect(std::move(stream), *tls, name));
  co_return std::unique_ptr<io::Stream>{std::move(encrypted)};
}

// Answers one message of a login; true when it is over.
Task<bool> answer_message(Surroundings& surroundings, io::Stream& upstream, PostgresLogin& login,
                          const PostgresMessage& message, std::string& for_client) {
  if (message.type == 'v') {  // what of the protocol it does not know: for the client
    for_client += postgres_message('v', message.body);
    co_return false;
  }
  if (message.type != 'R') {
    co_return fail(Code::kUnauthenticated, "the server does not accept the stored credential");
  }
  const std::string body{message.body};
  // SCRAM is made to take long.
  CO_TRY(const std::string reply,
         co_await surroundings.threads.run([&login, &body] { return login.answer(body); }));
  if (!reply.empty()) {
    CO_TRY_DO(co_await upstream.write(reply));
  }
  co_return login.done();
}

Task<std::string> log_in(Surroundings& surroundings, io::Stream& upstream, Pending& server,
                         PostgresStartup startup, const Injection& injection) {
  const egress::Material& material = *injection.material;
  const std::string asked = startup.find("user") == nullptr ? "" : *startup.find("user");
  if (startup.find("database") == nullptr) {
    startup.set("database", asked);  // which is what it means
  }
  const std::string user = material.username.empty() ? asked : material.username;
  startup.set("user", user);
  CO_TRY_DO(co_await upstream.write(encode(startup)));
  PostgresLogin login{user, material.password, injection.tls_upstream,
                      base64_encode(random_bytes(kNonceBytes))};
  std::string for_client;
  for (;;) {
    CO_TRY(const auto message, read_postgres_message(server.bytes()));
    if (!message) {
      CO_TRY_DO(co_await server.more(kMaxPostgresLoginBytes));
      continue;
    }
    CO_TRY(const bool over,
           co_await answer_message(surroundings, upstream, login, *message, for_client));
    server.drop(message->consumed);
    if (over) {
      co_return std::move(for_client);
    }
  }
}

Task<> serve_session(Surroundings& surroundings, Connection& connection, const Injection& injection,
                     bool& opened) {
  CO_TRY(const auto tls, upstream_tls(surroundings, injection));
  Pending client{*connection.client};
  CO_TRY(auto startup,
         co_await with_deadline(kGreetingTime, read_startup(*connection.client, client)));
  CO_TRY(const auto upstream,
         co_await with_deadline(kGreetingTime, open(surroundings, connection, tls.get())));
  if (startup.kind == Kind::kCancel) {
    opened = true;
    connection.account->add_operation("cancel");
    CO_TRY_DO(co_await upstream->write(client.take()));
    co_return co_await relay(*connection.client, *upstream);
  }
  const std::string* database = startup.find("database");
  connection.account->add_operation(concat("connect ", database == nullptr ? "" : *database));
  Pending server{*upstream};
  CO_TRY(const std::string first,
         co_await with_deadline(kGreetingTime, log_in(surroundings, *upstream, server,
                                                      std::move(startup), injection)));
  opened = true;
  constexpr std::uint32_t kOk = 0;
  CO_TRY_DO(co_await connection.client->write(
      concat(first, postgres_message('R', postgres_u32(kOk)), server.take())));
  CO_TRY_DO(co_await upstream->write(client.take()));
  co_return co_await relay(*connection.client, *upstream);
}

}  // namespace

Task<> serve_postgres(Surroundings& surroundings, Connection connection) {
  auto injection =
      co_await find_injection(surroundings, connection, egress::CredentialProtocol::kPostgres,
                              egress::ProjectionKind::kUsernamePassword);
  if (injection && !*injection) {
    co_return co_await pass_untouched(surroundings, std::move(connection));
  }
  bool opened = false;
  Result<> served;
  if (injection) {
    served = co_await serve_session(surroundings, connection, **injection, opened);
  } else {
    served = fail(std::move(injection).error());
  }
  if (!served && served.error().code != Code::kCancelled && !opened) {
    constexpr std::string_view kRefused = "28000";
    (void)co_await connection.client->write(
        postgres_error(kRefused, concat("atoll: ", served.error().message)));
    (void)connection.client->finish_writing();
  }
  co_return std::move(served);
}

}  // namespace atl::proxy::adapters
