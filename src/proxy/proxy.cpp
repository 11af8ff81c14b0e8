#include "proxy/proxy.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "proxy/limits.h"
#include "proxy/sandbox_session.h"

namespace atl::proxy {
struct Proxy::Impl {
  explicit Impl(ProxyOptions given)
      : options(std::move(given)),
        guard(options.opened),
        instruments(options.metrics),
        resolver(options.reactor, dns::Servers{options.dns_upstreams}, instruments),
        dialer(options.reactor, guard, resolver, options.credentials, options.peers),
        surroundings{options.reactor,     options.threads,
                     options.clock,       dialer,
                     options.credentials, options.approvals,
                     options.authorities, options.upstream_roots_pem},
        copy_buffer(kCopyBytes) {}

  void start(const std::shared_ptr<SandboxSession>& session) {
    if (scope != nullptr) {
      scope->spawn("sandbox network", session->run());
    }
  }

  ProxyOptions options;
  HostGuard guard;
  Instruments instruments;
  dns::Resolver resolver;
  Dialer dialer;
  Surroundings surroundings;
  PipePool pipes;
  std::vector<char> copy_buffer;
  Teams teams;
  Machinery machinery{options, surroundings, guard, resolver,   dialer,
                      pipes,   copy_buffer,  teams, instruments};
  std::map<std::string, std::shared_ptr<SandboxSession>, std::less<>> sessions;
  Scope* scope = nullptr;  // while it runs
};

Proxy::Proxy(ProxyOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Proxy::~Proxy() = default;

Surroundings& Proxy::surroundings() {
  return impl_->surroundings;
}

Result<> Proxy::attach(egress::RulesPtr rules, egress::Sockets sockets) {
  if (!rules || !sockets.tcp) {
    return fail(Code::kInvalidArgument, "a sandbox is attached with rules and sockets");
  }
  detach(rules->sandbox_id);
  const std::string id = rules->sandbox_id;
  auto session =
      std::make_shared<SandboxSession>(impl_->machinery, std::move(rules), std::move(sockets));
  impl_->start(session);
  impl_->sessions[id] = std::move(session);
  return {};
}

void Proxy::set_rules(egress::RulesPtr rules) {
  CHECK(rules != nullptr);
  const auto found = impl_->sessions.find(rules->sandbox_id);
  if (found != impl_->sessions.end()) {
    found->second->set_rules(std::move(rules));
  }
}

void Proxy::detach(std::string_view sandbox_id) {
  const auto found = impl_->sessions.find(sandbox_id);
  if (found != impl_->sessions.end()) {
    found->second->stop();
    impl_->sessions.erase(found);
  }
}

Task<> Proxy::run() {
  Scope scope{co_await current_context()};
  impl_->scope = &scope;
  scope.spawn("dns", impl_->resolver.run());
  scope.spawn("host addresses", impl_->guard.run(impl_->options.reactor));
  for (const auto& [id, session] : impl_->sessions) {
    impl_->start(session);
  }
  Event never;
  auto ended = co_await never.wait();
  impl_->scope = nullptr;
  CO_TRY_DO(co_await scope.cancel_and_join());
  co_return std::move(ended);
}

}  // namespace atl::proxy
