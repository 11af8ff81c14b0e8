#include "control/networks.h"

#include "base/log.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

egress::RulesPtr rules_with(const Sandbox& sandbox, std::string origin, egress::Policy policy) {
  auto rules = std::make_shared<egress::SandboxRules>();
  rules->sandbox_id = sandbox.id;
  rules->team_id = sandbox.team_id;
  rules->name = sandbox.name;
  rules->layers.push_back({std::move(origin), std::move(policy)});
  return rules;
}

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

}  // namespace

Networks::Networks(Parts parts)
    : parts_(parts), ports_(parts.reactor, parts.node, parts.sandboxes) {
  parts_.sandboxes.on_network(this);
}

Networks::~Networks() {
  parts_.sandboxes.on_network(nullptr);
}

Task<egress::RulesPtr> Networks::rules_or_closed(Sandbox sandbox, bool& closed) {
  auto rules = co_await with_deadline(kRulesTimeout, parts_.rules.rules(sandbox));
  closed = !rules || *rules == nullptr;
  if (!closed) {
    co_return *std::move(rules);
  }
  LOG_ERROR("a sandbox reaches nothing: its rules cannot be had", {"sandbox", sandbox.id},
            {"error", rules ? Error{Code::kInternal, "there are none", ""} : rules.error()});
  co_return rules_with(sandbox, "unreadable", egress::closed_policy());
}

Task<> Networks::attach(Sandbox sandbox, std::shared_ptr<node::NetworkSockets> sockets) {
  if (sockets == nullptr && attached_.contains(sandbox.id)) {
    co_return parts_.trust == nullptr ? ok() : co_await parts_.trust->wake(std::move(sandbox));
  }
  const bool new_cell = sockets != nullptr;
  if (sockets == nullptr) {
    CO_TRY(auto opened, co_await with_deadline(kNodeTimeout, parts_.node.open_network(sandbox.id)));
    sockets = std::make_shared<node::NetworkSockets>(std::move(opened));
  }
  bool closed = false;
  CO_TRY(auto rules, co_await rules_or_closed(sandbox, closed));
  CO_TRY_DO(parts_.boundary.attach(rules, {.tcp = std::move(sockets->tcp),
                                           .udp = std::move(sockets->udp),
                                           .dns = std::move(sockets->dns)}));
  Attached& attached = attached_[sandbox.id];
  attached.team_id = sandbox.team_id;
  attached.closed = closed;
  ++attached.turn;
  if (closed) {
    closed_.set();
  }
  if (parts_.trust == nullptr) {
    co_return ok();
  }
  if (new_cell) {
    co_return co_await parts_.trust->greet(std::move(sandbox), std::move(rules));
  }
  parts_.trust->plan(sandbox, rules);  // who made the cell may have ended before greeting it
  co_return ok();
}

void Networks::detach(std::string_view sandbox_id) {
  if (const auto found = attached_.find(sandbox_id); found != attached_.end()) {
    attached_.erase(found);
    parts_.boundary.detach(sandbox_id);
    if (parts_.trust != nullptr) {
      parts_.trust->forget(sandbox_id);
    }
  }
}

Task<std::optional<Networks::NewRules>> Networks::set_rules(std::string sandbox_id) {
  auto found = attached_.find(sandbox_id);
  if (found == attached_.end()) {
    co_return std::nullopt;
  }
  CO_TRY(Sandbox sandbox, parts_.sandboxes.get(found->second.team_id, sandbox_id));
  const std::uint64_t turn = ++found->second.turn;
  bool closed = false;
  CO_TRY(auto rules, co_await rules_or_closed(sandbox, closed));
  found = attached_.find(sandbox_id);
  if (found == attached_.end() || found->second.turn != turn) {
    co_return std::nullopt;  // it is gone, or somebody asked later than this
  }
  found->second.closed = closed;
  parts_.boundary.set_rules(rules);
  if (closed) {
    closed_.set();
    co_return fail(
        Code::kUnavailable,
        concat("the rules of sandbox ", sandbox_id, " cannot be had; it reaches nothing"),
        "rules_unreadable");
  }
  co_return NewRules{std::move(sandbox), std::move(rules)};
}

Task<> Networks::refresh(std::string sandbox_id) {
  CO_TRY(auto changed, co_await set_rules(std::move(sandbox_id)));
  if (!changed || parts_.trust == nullptr) {
    co_return ok();
  }
  co_return co_await parts_.trust->change(std::move(changed->sandbox), std::move(changed->rules));
}

// No sandbox keeps the others waiting, nor does the error of one: it is asked again, and closed
// until then.
Task<> Networks::refresh_some(std::vector<std::string> ids) {
  for (const std::string& id : ids) {
    auto changed = co_await set_rules(id);
    if (!changed && changed.error().code == Code::kCancelled) {
      co_return fail(std::move(changed).error());
    }
    if (!changed) {
      LOG_WARN("a sandbox has no new rules", {"sandbox", id}, {"error", changed.error()});
    } else if (*changed && parts_.trust != nullptr) {
      parts_.trust->plan((*changed)->sandbox, (*changed)->rules);
    }
  }
  co_return ok();
}

Task<> Networks::refresh_all() {
  std::vector<std::string> ids;
  for (const auto& [id, attached] : attached_) {
    ids.push_back(id);
  }
  return refresh_some(std::move(ids));
}

Task<> Networks::run() {
  for (;;) {
    CO_TRY_DO(co_await wait_for(closed_));
    CO_TRY_DO(co_await sleep_for(kRulesRetry));
    closed_.clear();
    std::vector<std::string> ids;
    for (const auto& [id, attached] : attached_) {
      if (attached.closed) {
        ids.push_back(id);
      }
    }
    CO_TRY_DO(co_await refresh_some(std::move(ids)));
  }
}

Task<Fd> Networks::connect(std::string team_id, std::string id, std::uint16_t port) {
  return ports_.connect(std::move(team_id), std::move(id), port);
}

}  // namespace atl::control
