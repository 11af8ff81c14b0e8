#include "control/peers.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::control {

// Nobody meets himself: a sandbox has its own loopback device for that.
bool SandboxPeers::may_meet(const egress::SandboxRules& caller, const Sandbox& peer) const {
  if (caller.groups.empty() || peer.team_id != caller.team_id || peer.id == caller.sandbox_id) {
    return false;
  }
  const auto groups = groups_of_(peer);
  return std::ranges::any_of(groups, [&](const std::string& group) {
    return std::ranges::find(caller.groups, group) != caller.groups.end();
  });
}

std::optional<std::string> SandboxPeers::find(const egress::SandboxRules& caller,
                                              std::string_view name) {
  const auto peer = sandboxes_.named(caller.team_id, std::string{name});
  return peer && may_meet(caller, *peer) ? std::optional{peer->id} : std::nullopt;
}

// Groups and names may have changed since the name was resolved. The peer is in use until it is
// connected, and its idle time begins again then: when the connection ends, nobody says here.
Task<Fd> SandboxPeers::connect(egress::RulesPtr caller, std::string peer_id, std::uint16_t port) {
  const auto peer = sandboxes_.get(caller->team_id, peer_id);
  if (!peer || !may_meet(*caller, *peer)) {
    co_return fail(Code::kPermissionDenied, "the peer is in none of the sandbox's groups",
                   "not_a_peer");
  }
  const auto used = sandboxes_.use(caller->team_id, peer_id);
  co_return co_await ports_.connect(caller->team_id, std::move(peer_id), port);
}

}  // namespace atl::control
