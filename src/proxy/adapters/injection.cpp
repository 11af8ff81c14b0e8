#include "proxy/adapters/injection.h"

#include "base/scope.h"
#include "base/strings.h"
#include "tls/stream.h"

namespace atl::proxy::adapters {
namespace {

const egress::CredentialRule* find_rule(const egress::SandboxRules& rules, const egress::Flow& flow,
                                        egress::CredentialProtocol protocol) {
  for (const auto& layer : rules.layers) {
    if (const auto* rule = egress::credential_rule(layer.policy, flow, protocol, nullptr)) {
      return rule;
    }
  }
  return nullptr;
}

Task<Injection> resolve(Surroundings& surroundings, egress::RulesPtr rules,
                        const egress::CredentialRule& rule, egress::ProjectionKind kind) {
  const egress::Binding* binding = rules->binding(rule.credential_ref);
  if (binding == nullptr || binding->projection.kind != kind) {
    co_return fail(Code::kFailedPrecondition,
                   concat("the credential \"", rule.credential_ref, "\" is not bound as needed"));
  }
  CO_TRY(auto material, co_await surroundings.credentials.resolve(rules, rule.credential_ref));
  if (!material || material->kind != kind) {
    co_return fail(Code::kFailedPrecondition,
                   concat("the credential \"", rule.credential_ref, "\" is of another kind"));
  }
  co_return Injection{.material = std::move(material),
                      .projection = binding->projection,
                      .tls_upstream = rule.tls_mode == egress::TlsMode::kTerminate};
}

}  // namespace

Task<std::optional<Injection>> find_injection(Surroundings& surroundings,
                                              const Connection& connection,
                                              egress::CredentialProtocol protocol,
                                              egress::ProjectionKind kind) {
  const egress::RulesPtr rules = connection.session->rules();
  const egress::CredentialRule* rule = find_rule(*rules, connection.flow, protocol);
  if (rule == nullptr) {
    co_return std::nullopt;
  }
  auto injection = co_await resolve(surroundings, rules, *rule, kind);
  egress::FlowRecord& record = connection.account->record;
  if (!injection) {
    if (rule->fail_open) {
      record.reason = "passed without its credential";
      co_return std::nullopt;
    }
    record.outcome = egress::Outcome::kDenied;
    record.origin = "credential";
    record.reason = injection.error().message;
    co_return fail(std::move(injection).error());
  }
  record.credential = injection->material->source_version;
  co_return *std::move(injection);
}

Result<std::unique_ptr<tls::Context>> upstream_tls(const Surroundings& surroundings,
                                                   const Injection& injection) {
  if (!injection.tls_upstream) {
    return nullptr;
  }
  const std::string& own = injection.material->ca_pem;
  return tls::Context::client(
      {.trusted_pem = own.empty() ? surroundings.upstream_roots_pem : own, .protocols = {}});
}

std::string upstream_name(const Connection& connection) {
  return connection.flow.name.empty() ? connection.flow.address.text() : connection.flow.name;
}

Task<std::unique_ptr<io::Stream>> dial(Surroundings& surroundings, const Connection& connection,
                                       const tls::Context* tls) {
  CO_TRY(auto stream, co_await surroundings.upstreams.dial(connection.session, connection.flow,
                                                           connection.account));
  if (tls == nullptr) {
    co_return std::move(stream);
  }
  const std::string name = upstream_name(connection);
  CO_TRY(auto encrypted, co_await with_deadline(kGreetingTime, tls::TlsStream::connect(
                                                                   std::move(stream), *tls, name)));
  co_return std::unique_ptr<io::Stream>{std::move(encrypted)};
}

Task<> Pending::more(std::size_t max_bytes) {
  if (buffer_.size() >= max_bytes) {
    co_return fail(Code::kInvalidArgument, "the greeting is too long");
  }
  constexpr std::size_t kReadBytes = 4096;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + std::min(kReadBytes, max_bytes - before));
  auto got = co_await stream_.read({buffer_.data() + before, buffer_.size() - before});
  buffer_.resize(before + got.value_or(0));
  if (!got) {
    co_return fail(std::move(got).error());
  }
  if (*got == 0) {
    co_return fail(Code::kUnavailable, "the connection ended in its greeting");
  }
  co_return ok();
}

Task<std::string> Pending::exactly(std::size_t size) {
  while (buffer_.size() < size) {
    CO_TRY_DO(co_await more(size));
  }
  std::string taken = buffer_.substr(0, size);
  drop(size);
  co_return std::move(taken);
}

Task<> pass_on(io::Stream& from, io::Stream& to) {
  std::string buffer(kRelayBytes, '\0');
  for (;;) {
    CO_TRY(const std::size_t got, co_await from.read(buffer));
    if (got == 0) {
      co_return to.finish_writing();
    }
    CO_TRY_DO(co_await to.write(std::string_view{buffer}.substr(0, got)));
  }
}

Task<> both(Task<> one, Task<> other) {
  Scope scope{co_await current_context()};
  Result<> outcome;
  scope.on_error([&scope, &outcome](const char*, const Error& error) {
    outcome = fail(error);
    scope.cancel();
  });
  scope.spawn("outwards", std::move(one));
  scope.spawn("inwards", std::move(other));
  auto joined = co_await scope.join();
  if (!joined) {
    (void)co_await scope.cancel_and_join();
    co_return std::move(joined);
  }
  co_return std::move(outcome);
}

Task<> relay(io::Stream& client, io::Stream& upstream) {
  co_return co_await both(pass_on(client, upstream), pass_on(upstream, client));
}

Task<> pass_untouched(Surroundings& surroundings, Connection connection) {
  CO_TRY(const auto upstream, co_await dial(surroundings, connection, nullptr));
  co_return co_await relay(*connection.client, *upstream);
}

}  // namespace atl::proxy::adapters
