#include "egress/learn.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/strings.h"

namespace atl::egress {
namespace {

// Rules that differ in nothing else are one rule.
struct Group {
  std::set<std::string> names;
  std::set<std::string> networks;
};
using GroupKey = std::tuple<AppProtocol, Transport, std::uint16_t>;

// "a.b.example.com" -> "b.example.com"; empty when nothing that may have a wildcard is left.
std::string parent_domain(std::string_view name) {
  const auto dot = name.find('.');
  if (dot == std::string_view::npos) {
    return {};
  }
  const std::string_view parent = name.substr(dot + 1);
  if (parent.find('.') == std::string_view::npos) {
    return {};  // a top-level domain
  }
  // "co.uk", "com.au": two short labels are a registry's, not an organisation's.
  const auto first = parent.substr(0, parent.find('.'));
  const auto last = parent.substr(parent.rfind('.') + 1);
  const bool registry =
      std::ranges::count(parent, '.') == 1 && last.size() == 2 && first.size() <= 3;
  return registry ? std::string{} : std::string{parent};
}

// Names with enough siblings become the pattern of their domain.
std::set<std::string> with_wildcards(const std::set<std::string>& names) {
  std::map<std::string, std::set<std::string>> families;
  for (const auto& name : names) {
    families[parent_domain(name)].insert(name);
  }
  std::set<std::string> patterns;
  for (const auto& [parent, members] : families) {
    if (!parent.empty() && members.size() >= kSiblingsOfWildcard) {
      patterns.insert(concat("*.", parent));
    } else {
      patterns.insert(members.begin(), members.end());
    }
  }
  std::set<std::string> kept;
  for (const auto& text : patterns) {
    const bool covered = std::ranges::any_of(patterns, [&](const std::string& other) {
      return other != text && other.starts_with("*.") &&
             (text.ends_with(std::string_view{other}.substr(1)) || text == other.substr(2));
    });
    if (!covered) {
      kept.insert(text);
    }
  }
  return kept;
}

std::string rule_name(const GroupKey& key, bool by_name) {
  const auto& [protocol, transport, port] = key;
  const std::string_view what = protocol == AppProtocol::kUnknown
                                    ? (transport == Transport::kUdp ? "udp" : "tcp")
                                    : app_protocol_name(protocol);
  return concat("learned-", what, "-", port, by_name ? "" : "-addresses");
}

TrafficRule begin_rule(const GroupKey& key, bool by_name) {
  const auto& [protocol, transport, port] = key;
  TrafficRule rule{.name = rule_name(key, by_name), .action = Action::kAllow};
  rule.ports.push_back({port, port, transport});
  if (protocol != AppProtocol::kUnknown) {
    rule.app_protocols.push_back(protocol);
  }
  return rule;
}

// A rule holds only so many; the rest goes into the next, whose name says so.
template <class Add>
void add_rules(Policy& policy, const GroupKey& key, const std::set<std::string>& texts,
               bool by_name, Add add) {
  constexpr std::size_t kMaxPerRule = 256;
  std::size_t count = 0;
  for (const auto& text : texts) {
    if (count % kMaxPerRule == 0) {
      policy.traffic_rules.push_back(begin_rule(key, by_name));
      if (count > 0) {
        policy.traffic_rules.back().name += concat("-", count / kMaxPerRule + 1);
      }
    }
    add(policy.traffic_rules.back(), text);
    ++count;
  }
}

}  // namespace

Lesson learn(const std::vector<Observation>& observations, const LearnOptions& options) {
  std::map<GroupKey, Group> groups;
  Lesson lesson;
  lesson.policy.mode = Mode::kBlockAll;
  for (const Observation& seen : observations) {
    const bool usable = !seen.flow.name.empty() || seen.has_address;
    if ((!seen.allowed && !options.include_denied) || !usable) {
      ++lesson.left_out;
      continue;
    }
    ++lesson.used;
    Group& group = groups[{seen.flow.protocol, seen.flow.transport, seen.flow.port}];
    if (!seen.flow.name.empty()) {
      group.names.insert(seen.flow.name);
    } else {
      group.networks.insert(Network::of(seen.flow.address).text());
    }
  }
  for (const auto& [key, group] : groups) {
    const auto names = options.wildcards ? with_wildcards(group.names) : group.names;
    add_rules(lesson.policy, key, names, true, [](TrafficRule& rule, const std::string& text) {
      if (auto pattern = DomainPattern::parse(text)) {
        rule.domains.push_back(*std::move(pattern));
      }
    });
    add_rules(lesson.policy, key, group.networks, false,
              [](TrafficRule& rule, const std::string& text) {
                if (auto network = Network::parse(text)) {
                  rule.networks.push_back(*network);
                }
              });
  }
  // A rule without anything to match would match everything.
  std::erase_if(lesson.policy.traffic_rules, [](const TrafficRule& rule) {
    return rule.domains.empty() && rule.networks.empty();
  });
  return lesson;
}

bool Replay::denies_what_was_allowed() const {
  return std::ranges::any_of(changes, [](const Change& change) {
    return change.was_allowed && change.now.action == Action::kDeny;
  });
}

Replay replay(PolicyStack draft, const std::vector<Observation>& observations) {
  Replay result;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& seen = observations[i];
    Decision now = decide(draft, seen.flow);
    const bool same = seen.allowed ? now.action == Action::kAllow : now.action == Action::kDeny;
    if (same) {
      ++result.unchanged;
    } else {
      result.changes.push_back({i, seen.allowed, std::move(now)});
    }
  }
  return result;
}

}  // namespace atl::egress
