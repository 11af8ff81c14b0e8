#include "proxy/flow_account.h"

#include "base/random.h"
#include "base/strings.h"
#include "egress/classifier.h"
#include "egress/host_name.h"
#include "proxy/judge.h"
#include "proxy/socket.h"

namespace atl::proxy {
namespace {
constexpr std::size_t kIdDigits = 20;
}

std::shared_ptr<FlowAccount> open_account(SandboxSession& session, egress::Transport transport,
                                          const Endpoint& source, const Endpoint& destination) {
  auto account = std::make_shared<FlowAccount>();
  egress::FlowRecord& record = account->record;
  record.id = concat("flow-", random_hex(kIdDigits));
  record.sandbox_id = session.rules()->sandbox_id;
  record.team_id = session.rules()->team_id;
  record.began_at = session.machinery().options.clock.now();
  record.transport = transport;
  record.source = source.text();
  record.destination = destination.text();
  return account;
}

std::string pinned_name(SandboxSession& session, const egress::Flow& flow) {
  const auto now = session.machinery().options.reactor.now();
  const auto names = session.pins().names(flow.address, now);
  for (const std::string& name : names) {
    egress::Flow named = flow;
    named.name = name;
    if (judge(*session.rules(), named, nullptr).action != egress::Action::kDeny) {
      return name;
    }
  }
  return names.empty() ? std::string{} : names.front();
}

std::string flow_title(const egress::Flow& flow) {
  const std::string_view protocol = flow.transport == egress::Transport::kUdp ? "udp"
                                    : flow.protocol == egress::AppProtocol::kUnknown
                                        ? "tcp"
                                        : egress::app_protocol_name(flow.protocol);
  return concat(protocol, " ", flow.name.empty() ? flow.address.text() : flow.name, ":", flow.port);
}

void refuse_for_want_of_room(SandboxSession& session, Fd client, std::string_view whose) {
  const auto original = local_endpoint(client.get());
  const auto source = peer_endpoint(client.get());
  Socket socket{session.machinery().options.reactor, std::move(client)};
  socket.reset_on_close();
  if (!original || !source) {
    return;
  }
  const auto account = open_account(session, egress::Transport::kTcp, *source, *original);
  account->record.outcome = egress::Outcome::kDenied;
  account->record.origin = "limit";
  account->record.rule = "connections";
  account->record.reason = concat("the ", whose, " has as many connections as it may have");
  session.machinery().instruments.count(account->record);
  session.machinery().options.flows.record(account->record);
}

void note_contents(egress::FlowRecord& record, std::string_view bytes) {
  const auto contents = egress::classify(bytes);
  if (!contents || !*contents) {
    return;
  }
  record.protocol = (*contents)->protocol;
  const auto& hello = (*contents)->hello;
  if (const auto name = hello ? egress::normal_host_name(hello->server_name) : std::nullopt) {
    record.name = *name;
  }
}

}  // namespace atl::proxy
