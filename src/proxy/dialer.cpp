#include "proxy/dialer.h"

#include <algorithm>
#include <cstring>

#include "base/scope.h"
#include "base/strings.h"
#include "proxy/judge.h"
#include "proxy/limits.h"
#include "proxy/socket.h"
#include "proxy/socks5.h"

namespace atl::proxy {
namespace {

Task<> socks5_handshake(Socket& socket, Endpoint target, egress::MaterialPtr login) {
  Socks5Client client{target, login ? login->username : "", login ? login->password : ""};
  while (client.wanted_bytes() > 0) {
    std::string output = client.take_output();
    auto sent = co_await send_all(socket, output);
    ::explicit_bzero(output.data(), output.size());
    CO_TRY_DO(std::move(sent));
    std::string answer;
    while (answer.size() < client.wanted_bytes()) {
      CO_TRY(const std::string more,
             co_await receive_some(socket, client.wanted_bytes() - answer.size()));
      if (more.empty()) {
        co_return fail(Code::kUnavailable, "the upstream proxy closed the connection");
      }
      answer += more;
    }
    CO_TRY_DO(client.feed(answer));
  }
  co_return ok();
}

}  // namespace

std::optional<std::string_view> peer_label(std::string_view name) {
  if (!name.ends_with(kPeerSuffix) || name.size() == kPeerSuffix.size()) {
    return std::nullopt;
  }
  const auto label = name.substr(0, name.size() - kPeerSuffix.size());
  return label.contains('.') ? std::nullopt : std::optional{label};
}

const egress::UpstreamProxy* upstream_proxy(const egress::SandboxRules& rules) {
  for (const auto& layer : rules.layers) {
    if (layer.policy.proxy) {
      return &*layer.policy.proxy;
    }
  }
  return nullptr;
}

Task<std::unique_ptr<io::Stream>> Dialer::dial(std::shared_ptr<Session> session, egress::Flow flow,
                                               std::shared_ptr<FlowAccount> account) {
  const egress::RulesPtr rules = session->rules();
  // Whoever dials has asked about the flow as it is given here.
  std::string approved = rule_key(decide_with_origin(*rules, flow));
  CO_TRY(Fd fd, co_await connect(rules, std::move(flow), std::move(account), std::move(approved)));
  co_return std::make_unique<io::FdStream>(reactor_, std::move(fd));
}

Task<Fd> Dialer::connect(egress::RulesPtr rules, egress::Flow flow,
                         std::shared_ptr<FlowAccount> account, std::string approved) {
  if (const auto label = peer_label(flow.name)) {
    if (account->record.kind != kPeerKind) {
      co_return fail(Code::kPermissionDenied, std::string{kPeerElsewhere});
    }
    std::string name{*label};
    co_return co_await connect_peer(std::move(rules), std::move(name), std::move(flow),
                                    std::move(account));
  }
  CO_TRY(std::vector<Endpoint> endpoints, co_await candidates(rules, flow, std::move(approved)));
  if (const egress::UpstreamProxy* proxy = upstream_proxy(*rules)) {
    co_return co_await connect_through(rules, *proxy, endpoints.front(), std::move(account));
  }
  account->record.dialled = endpoints.front().text();
  CO_TRY(Connected connected, co_await connect_first(reactor_, std::move(endpoints)));
  account->record.dialled = connected.endpoint.text();
  co_return std::move(connected.fd);
}

Task<Fd> Dialer::connect_peer(egress::RulesPtr rules, std::string label, egress::Flow flow,
                              std::shared_ptr<FlowAccount> account) {
  const auto peer = peers_.find(*rules, label);
  if (!peer) {
    co_return fail(Code::kNotFound, concat("no sandbox of this sandbox's groups is named ", label));
  }
  const auto decision = egress::decide(rules->stack(), flow);
  if (decision.action == egress::Action::kDeny) {
    co_return fail(Code::kPermissionDenied, decision.reason);
  }
  account->record.dialled = concat(*peer, ":", flow.port);
  co_return co_await with_deadline(kConnectTime, peers_.connect(rules, *peer, flow.port));
}

// The addresses that may be dialled, the one the sandbox wanted first when it is among them.
Task<std::vector<Endpoint>> Dialer::candidates(egress::RulesPtr rules, egress::Flow flow,
                                               std::string approved) {
  std::vector<egress::Address> addresses{flow.address};
  if (!flow.name.empty()) {
    const bool v6_first = !flow.address.is_v4();
    CO_TRY(addresses, co_await names_.addresses(flow.name, v6_first));
    const auto wanted = std::ranges::find(addresses, flow.address);
    if (wanted != addresses.end()) {
      std::rotate(addresses.begin(), wanted, std::next(wanted));
    }
  }
  std::vector<Endpoint> endpoints;
  std::string refusal = "it has no address";
  for (const auto& address : addresses) {
    if (auto closed = guard_.refusal(address)) {
      refusal = *std::move(closed);
      continue;
    }
    egress::Flow dialled = flow;
    dialled.address = address;
    auto verdict = decide_with_origin(*rules, dialled);
    if (verdict.action == egress::Action::kDeny || is_unasked(verdict, approved)) {
      refusal = std::move(verdict.reason);
    } else if (endpoints.size() < kMaxDialledAddresses) {
      endpoints.push_back({address, flow.port});
    }
  }
  if (endpoints.empty()) {
    co_return fail(Code::kPermissionDenied, std::move(refusal));
  }
  co_return endpoints;
}

// The proxy is chosen by whoever wrote the policy, who may be a tenant: its address is checked like
// any other.
Task<std::vector<Endpoint>> Dialer::proxy_endpoints(egress::UpstreamProxy proxy) {
  std::vector<egress::Address> addresses;
  if (const auto literal = egress::Address::parse(proxy.host)) {
    addresses.push_back(*literal);
  } else {
    CO_TRY(addresses, co_await names_.addresses(proxy.host, false));
  }
  std::vector<Endpoint> endpoints;
  std::string refusal;
  for (const auto& address : addresses) {
    if (auto closed = guard_.refusal(address)) {
      refusal = *std::move(closed);
    } else if (endpoints.size() < kMaxDialledAddresses) {
      endpoints.push_back({address, proxy.port});
    }
  }
  if (endpoints.empty()) {
    co_return fail(Code::kPermissionDenied, concat("the upstream proxy: ", refusal));
  }
  co_return endpoints;
}

Task<Fd> Dialer::connect_through(egress::RulesPtr rules, egress::UpstreamProxy proxy,
                                 Endpoint target, std::shared_ptr<FlowAccount> account) {
  egress::MaterialPtr login;
  if (!proxy.credential_ref.empty()) {
    CO_TRY(login, co_await credentials_.resolve(rules, proxy.credential_ref));
    if (!login || login->kind != egress::ProjectionKind::kUsernamePassword) {
      co_return fail(Code::kFailedPrecondition,
                     "the upstream proxy's credential is no username and password");
    }
  }
  CO_TRY(std::vector<Endpoint> endpoints, co_await proxy_endpoints(std::move(proxy)));
  CO_TRY(Connected connected, co_await connect_first(reactor_, std::move(endpoints)));
  account->record.dialled = concat(target.text(), " via ", connected.endpoint.text());
  Socket socket{reactor_, std::move(connected.fd)};
  CO_TRY_DO(co_await with_deadline(kConnectTime, socks5_handshake(socket, target, login)));
  CO_TRY(Fd fd, socket.fd.duplicate());
  co_return fd;
}

}  // namespace atl::proxy
