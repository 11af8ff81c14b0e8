// SSH without the key inside: the sandbox's client is met by a server of ours with a host key of
// this sandbox, and what it asks for is done upstream, where the stored key logs in. The upstream's
// host key must be one that the binding lists. Shells, commands and subsystems pass; forwarding
// does not: it would be a way around the policy.
#include <algorithm>

#include "base/scope.h"
#include "base/strings.h"
#include "proxy/adapters/adapters.h"
#include "proxy/adapters/injection.h"
#include "proxy/adapters/ssh_upstream.h"
#include "ssh/bridge.h"
#include "ssh/private_key.h"
#include "ssh/server.h"

namespace atl::proxy::adapters {
namespace {

constexpr int kBrokenStatus = 255;

Result<std::vector<std::string>> key_blobs(const std::vector<std::string>& lines) {
  std::vector<std::string> blobs;
  for (const std::string& line : lines) {
    auto key = ssh::parse_public_key(line);
    if (!key) {
      return fail(std::move(key.error()).note("sandboxPublicKeys"));
    }
    blobs.push_back(std::move(key->blob));
  }
  return blobs;
}

class ProxiedLogin final : public ssh::ServerHandler {
 public:
  ProxiedLogin(SshUpstream& upstream, std::vector<std::string> keys, FlowAccount& account)
      : upstream_(upstream), keys_(std::move(keys)), account_(account) {}

  bool let_in(std::string_view, std::string_view key_blob) override {
    return keys_.empty() || std::find(keys_.begin(), keys_.end(), key_blob) != keys_.end();
  }
  bool let_in_without_key(std::string_view) override { return keys_.empty(); }
  void logged_in(std::string_view user) override { upstream_.log_in_as(std::string{user}); }

  Task<> serve_session(ssh::Channel& channel) override {
    auto upstream = co_await upstream_.open_session();
    Result<> served;
    if (upstream) {
      served = co_await relay_session(channel, **upstream, account_);
    } else {
      served = fail(std::move(upstream).error());
      CO_TRY_DO(co_await tell(channel, served.error()));
    }
    co_return std::move(served);
  }

 private:
  // Answers what the client wants to run, so that it reads why it does not get it.
  static Task<> tell(ssh::Channel& channel, const Error& error) {
    using Kind = ssh::ChannelRequest::Kind;
    for (;;) {
      CO_TRY(const auto request, co_await channel.next_request());
      channel.answer(true);
      if (request.kind == Kind::kShell || request.kind == Kind::kExec ||
          request.kind == Kind::kSubsystem) {
        break;
      }
    }
    std::string text = "atoll: ";
    append_printable(text, error.message);
    CO_TRY_DO(co_await channel.write_error(concat(text, "\r\n")));
    channel.send_exit({.status = kBrokenStatus, .signal = {}});
    co_return co_await channel.flush();
  }

  SshUpstream& upstream_;
  std::vector<std::string> keys_;
  FlowAccount& account_;
};

Task<std::string> host_key(Surroundings& surroundings, const Connection& connection) {
  CO_TRY(const auto authority,
         co_await surroundings.authorities.authority(connection.session->rules()->sandbox_id));
  co_return ssh::derive_host_key(authority->key_pem, "ssh host key");
}

Task<> serve_with(Surroundings& surroundings, Connection& connection, Injection injection) {
  CO_TRY(auto keys, key_blobs(injection.projection.sandbox_public_keys));
  CO_TRY(std::string key, co_await host_key(surroundings, connection));
  CO_TRY(auto known, ssh::KnownHosts::parse(injection.projection.known_hosts));
  CO_TRY(const auto bridge, ssh::Bridge::make(surroundings.reactor, *connection.client));
  Scope scope{co_await current_context()};
  scope.on_error([](const char*, const Error&) {});
  SshUpstream upstream{surroundings, connection, injection, std::move(known), scope};
  ProxiedLogin login{upstream, std::move(keys), *connection.account};
  scope.spawn("ssh bridge", bridge->run());
  auto served = co_await ssh::serve(surroundings.reactor, bridge->take_descriptor(),
                                    {.host_key = std::move(key)}, login);
  (void)co_await scope.cancel_and_join();
  co_return std::move(served);
}

}  // namespace

Task<> serve_ssh(Surroundings& surroundings, Connection connection) {
  CO_TRY(auto injection,
         co_await find_injection(surroundings, connection, egress::CredentialProtocol::kSsh,
                                 egress::ProjectionKind::kSshProxy));
  if (!injection) {
    co_return co_await pass_untouched(surroundings, std::move(connection));
  }
  co_return co_await serve_with(surroundings, connection, *std::move(injection));
}

}  // namespace atl::proxy::adapters
