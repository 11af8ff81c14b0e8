#include "egress/policy.h"

#include <algorithm>
#include <array>
#include <utility>

namespace atl::egress {
namespace {

constexpr std::array<std::pair<std::string_view, AppProtocol>, 12> kProtocolNames{{
    {"unknown", AppProtocol::kUnknown},
    {"http", AppProtocol::kHttp},
    {"tls", AppProtocol::kTls},
    {"ssh", AppProtocol::kSsh},
    {"socks5", AppProtocol::kSocks5},
    {"mqtt", AppProtocol::kMqtt},
    {"redis", AppProtocol::kRedis},
    {"amqp", AppProtocol::kAmqp},
    {"dns", AppProtocol::kDns},
    {"mongodb", AppProtocol::kMongodb},
    {"postgres", AppProtocol::kPostgres},
    {"udp", AppProtocol::kUdp},
}};

template <class Rule>
void merge_rules(std::vector<Rule>& below, const std::vector<Rule>& above) {
  for (const auto& rule : above) {
    const auto same = std::find_if(below.begin(), below.end(), [&](const Rule& other) {
      return !rule.name.empty() && other.name == rule.name;
    });
    if (same != below.end()) {
      *same = rule;
    } else {
      below.push_back(rule);
    }
  }
}

}  // namespace

std::string_view app_protocol_name(AppProtocol protocol) {
  for (const auto& [name, value] : kProtocolNames) {
    if (value == protocol) {
      return name;
    }
  }
  return "unknown";
}

std::optional<AppProtocol> app_protocol_of(std::string_view name) {
  for (const auto& [known, value] : kProtocolNames) {
    if (known == name && value != AppProtocol::kUnknown) {
      return value;
    }
  }
  return std::nullopt;
}

Policy merge_policies(Policy below, const Policy& above) {
  below.mode = above.mode;
  merge_rules(below.traffic_rules, above.traffic_rules);
  merge_rules(below.protocol_rules, above.protocol_rules);
  merge_rules(below.credential_rules, above.credential_rules);
  if (above.proxy) {
    below.proxy = above.proxy;
  }
  return below;
}

}  // namespace atl::egress
