// What a sandbox may reach: the policy as a value.
//
// A policy is a mode (what happens when no rule speaks) and ordered traffic rules: the first that
// matches decides. Protocol rules then restrict what may be said over HTTP and MCP, and credential
// rules say where a credential is used. A sandbox is under several policies at once: its own
// (template and request merged) and the floors, which an operator or a template sets below it. A
// flow must be allowed by every one of them, so nobody above a floor can open what it closes.
//
// Everything here is plain values; policy_json reads and writes them, decision judges with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "egress/address.h"
#include "egress/host_name.h"

namespace atl::egress {

enum class Transport : std::uint8_t { kTcp, kUdp };

enum class AppProtocol : std::uint8_t {
  kUnknown,
  kHttp,
  kTls,
  kSsh,
  kSocks5,
  kMqtt,
  kRedis,
  kAmqp,
  kDns,
  kMongodb,
  kPostgres,
  kUdp,
};
std::string_view app_protocol_name(AppProtocol protocol);  // "http"
std::optional<AppProtocol> app_protocol_of(std::string_view name);

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  Transport transport = Transport::kTcp;
  bool operator==(const PortRange&) const = default;
};

enum class Action : std::uint8_t { kAllow, kDeny, kAsk };

struct TrafficRule {
  std::string name;  // may be empty
  Action action = Action::kDeny;
  // A kind that is empty matches everything; at least one is not.
  std::vector<Network> networks;
  std::vector<DomainPattern> domains;
  std::vector<PortRange> ports;
  std::vector<AppProtocol> app_protocols;
  bool operator==(const TrafficRule&) const = default;
};

enum class TlsMode : std::uint8_t { kPassthrough, kTerminate };

struct ValueMatch {
  std::string name;
  std::vector<std::string> values;  // any of them; empty: see `present`
  std::optional<bool> present;
  bool operator==(const ValueMatch&) const = default;
};

// Narrows a rule to some HTTP requests. Empty lists match everything.
struct HttpMatch {
  std::vector<std::string> methods;
  std::vector<std::string> paths;
  std::vector<std::string> path_prefixes;
  std::vector<ValueMatch> query;
  std::vector<ValueMatch> headers;
  bool operator==(const HttpMatch&) const = default;
};

struct AllowDeny {
  std::vector<std::string> allowed;  // when not empty, only these
  std::vector<std::string> denied;   // checked first
  bool operator==(const AllowDeny&) const = default;
};

// A pattern for one argument of an MCP tool: the value at a JSON pointer must (not) match.
struct ArgumentRule {
  std::string tool;
  std::string pointer;
  std::string pattern;  // RE2, the whole value
  bool deny = false;
  bool operator==(const ArgumentRule&) const = default;
};

enum class RuleProtocol : std::uint8_t { kHttp, kMcp };

struct ProtocolRule {
  std::string name;
  RuleProtocol protocol = RuleProtocol::kHttp;
  std::vector<DomainPattern> domains;
  std::vector<PortRange> ports;
  TlsMode tls_mode = TlsMode::kPassthrough;
  std::optional<HttpMatch> http_match;
  AllowDeny methods;
  AllowDeny paths;
  AllowDeny path_prefixes;
  AllowDeny tools;
  std::vector<ArgumentRule> arguments;
  bool operator==(const ProtocolRule&) const = default;
};

enum class CredentialProtocol : std::uint8_t {
  kHttp,
  kHttps,
  kGrpc,
  kTls,
  kSsh,
  kSocks5,
  kMqtt,
  kRedis,
  kPostgres,
};

struct CredentialRule {
  std::string name;
  std::string credential_ref;
  bool enabled = true;
  CredentialProtocol protocol = CredentialProtocol::kHttps;
  TlsMode tls_mode = TlsMode::kPassthrough;
  bool fail_open = false;
  std::vector<DomainPattern> domains;
  std::vector<PortRange> ports;
  std::optional<HttpMatch> http_match;
  bool operator==(const CredentialRule&) const = default;
};

// An upstream SOCKS5 proxy that everything goes through.
struct UpstreamProxy {
  std::string host;
  std::uint16_t port = 0;
  std::string credential_ref;  // may be empty
  bool operator==(const UpstreamProxy&) const = default;
};

enum class Mode : std::uint8_t { kAllowAll, kBlockAll };

struct Policy {
  Mode mode = Mode::kAllowAll;
  std::vector<TrafficRule> traffic_rules;
  std::vector<ProtocolRule> protocol_rules;
  std::vector<CredentialRule> credential_rules;
  std::optional<UpstreamProxy> proxy;
  bool operator==(const Policy&) const = default;
};

// The request's policy over the template's: its mode wins, a rule with the name of an earlier one
// takes its place, others come after.
Policy merge_policies(Policy below, const Policy& above);

// The policy that is used when there ought to be one and it cannot be read.
inline Policy closed_policy() {
  return Policy{.mode = Mode::kBlockAll};
}

}  // namespace atl::egress
