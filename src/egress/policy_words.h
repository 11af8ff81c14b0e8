// The words of the policy document and what they mean; for its reader and its writer.
#pragma once

#include <string_view>

#include "egress/policy.h"

namespace atl::egress {

// One of a few words, with its meaning.
template <class Value>
struct Word {
  std::string_view text;
  Value value;
};

inline constexpr Word<Mode> kModes[] = {{"allow-all", Mode::kAllowAll},
                                        {"block-all", Mode::kBlockAll}};
inline constexpr Word<Action> kActions[] = {
    {"allow", Action::kAllow}, {"deny", Action::kDeny}, {"ask", Action::kAsk}};
inline constexpr Word<TlsMode> kTlsModes[] = {{"passthrough", TlsMode::kPassthrough},
                                              {"terminate-reoriginate", TlsMode::kTerminate}};
inline constexpr Word<Transport> kTransports[] = {{"tcp", Transport::kTcp},
                                                  {"udp", Transport::kUdp}};
inline constexpr Word<RuleProtocol> kRuleProtocols[] = {{"http", RuleProtocol::kHttp},
                                                        {"mcp", RuleProtocol::kMcp}};
inline constexpr Word<bool> kFailurePolicies[] = {{"fail-closed", false}, {"fail-open", true}};
inline constexpr Word<bool> kRollouts[] = {{"enabled", true}, {"disabled", false}};
inline constexpr Word<CredentialProtocol> kCredentialProtocols[] = {
    {"http", CredentialProtocol::kHttp},         {"https", CredentialProtocol::kHttps},
    {"grpc", CredentialProtocol::kGrpc},         {"tls", CredentialProtocol::kTls},
    {"ssh", CredentialProtocol::kSsh},           {"socks5", CredentialProtocol::kSocks5},
    {"mqtt", CredentialProtocol::kMqtt},         {"redis", CredentialProtocol::kRedis},
    {"postgres", CredentialProtocol::kPostgres},
};

template <class Value, std::size_t kCount>
std::string_view word_of(const Word<Value> (&words)[kCount], Value value) {
  for (const auto& word : words) {
    if (word.value == value) {
      return word.text;
    }
  }
  return {};
}

}  // namespace atl::egress
