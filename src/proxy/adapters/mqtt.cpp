#include <cstring>

#include "proxy/adapters/adapters.h"
#include "proxy/adapters/injection.h"
#include "proxy/adapters/mqtt_connect.h"

namespace atl::proxy::adapters {
namespace {

Task<MqttConnect> read_connect(Pending& client, const egress::Material& material) {
  for (;;) {
    CO_TRY(auto connect,
           rewrite_mqtt_connect(client.bytes(), material.username, material.password));
    if (connect) {
      client.drop(connect->consumed);
      co_return *std::move(connect);
    }
    CO_TRY_DO(co_await client.more(kMaxMqttConnectBytes));
  }
}

Task<> serve_with(Surroundings& surroundings, Connection& connection, Injection injection,
                  std::uint8_t& level) {
  CO_TRY(const auto tls, upstream_tls(surroundings, injection));
  Pending client{*connection.client};
  CO_TRY(auto connect,
         co_await with_deadline(kGreetingTime, read_connect(client, *injection.material)));
  level = connect.level;
  CO_TRY(const auto upstream, co_await dial(surroundings, connection, tls.get()));
  auto sent = co_await upstream->write(connect.packet);
  ::explicit_bzero(connect.packet.data(), connect.packet.size());
  CO_TRY_DO(std::move(sent));
  connection.account->add_operation("CONNECT");
  level = 0;  // from here on the server answers
  CO_TRY_DO(co_await upstream->write(client.take()));
  co_return co_await relay(*connection.client, *upstream);
}

}  // namespace

Task<> serve_mqtt(Surroundings& surroundings, Connection connection) {
  auto injection =
      co_await find_injection(surroundings, connection, egress::CredentialProtocol::kMqtt,
                              egress::ProjectionKind::kUsernamePassword);
  if (injection && !*injection) {
    co_return co_await pass_untouched(surroundings, std::move(connection));
  }
  constexpr std::uint8_t kUsualLevel = 4;
  std::uint8_t level = kUsualLevel;
  Result<> served;
  if (injection) {
    served = co_await serve_with(surroundings, connection, **std::move(injection), level);
  } else {
    served = fail(std::move(injection).error());
  }
  if (!served && served.error().code != Code::kCancelled && level != 0) {
    (void)co_await connection.client->write(mqtt_refusal(level));
    (void)connection.client->finish_writing();
  }
  co_return std::move(served);
}

}  // namespace atl::proxy::adapters
