#include "proxy/dns/service.h"

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"
#include "egress/host_name.h"
#include "proxy/judge.h"
#include "proxy/sandbox_session.h"

namespace atl::proxy::dns {
namespace {

using egress::Address;
using egress::DnsCode;
using egress::DnsQuestion;
using egress::DnsRecord;
using egress::DnsType;

constexpr std::uint32_t kLocalTtlSeconds = 60;
constexpr std::uint32_t kPeerTtlSeconds = 5;
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kIdDigits = 20;
constexpr std::size_t kMaxRecordedAddresses = 8;
// The address that every sandbox has for itself.
constexpr std::uint32_t kOwnV4 = 0x0ac80002;  // 10.200.0.2
constexpr std::string_view kOwnV6 = "fd00:a70:11::2";
// Asked by browsers before they resolve over HTTPS by themselves: it must not exist.
constexpr std::string_view kCanary = "use-application-dns.net";

bool is_below(std::string_view name, std::string_view suffix) {
  return name == suffix || (name.size() > suffix.size() && name.ends_with(suffix) &&
                            name[name.size() - suffix.size() - 1] == '.');
}

// Asks whose machine a private address is: this host's network is nobody's business.
bool is_private_reverse(std::string_view name) {
  if (is_below(name, "ip6.arpa")) {
    return !is_below(name, "2.ip6.arpa") && !is_below(name, "3.ip6.arpa");
  }
  if (!is_below(name, "in-addr.arpa")) {
    return false;
  }
  auto parts = split(name, '.');
  if (parts.size() != 6) {
    return true;
  }
  const auto address =
      Address::parse(concat(parts[3], ".", parts[2], ".", parts[1], ".", parts[0]));
  return !address || egress::classify_address(*address) != egress::AddressClass::kPublic;
}

bool is_asked_upstream(DnsType type) {
  switch (type) {
    case DnsType::kA:
    case DnsType::kAaaa:
    case DnsType::kCname:
    case DnsType::kNs:
    case DnsType::kPtr:
    case DnsType::kMx:
    case DnsType::kSrv:
    case DnsType::kTxt:
      return true;
    default:
      return false;
  }
}

std::string type_name(DnsType type) {
  switch (type) {
    case DnsType::kA:
      return "A";
    case DnsType::kAaaa:
      return "AAAA";
    case DnsType::kCname:
      return "CNAME";
    case DnsType::kNs:
      return "NS";
    case DnsType::kPtr:
      return "PTR";
    case DnsType::kMx:
      return "MX";
    case DnsType::kSrv:
      return "SRV";
    case DnsType::kTxt:
      return "TXT";
    case DnsType::kHttps:
      return "HTTPS";
    default:
      return concat("TYPE", static_cast<unsigned>(type));
  }
}

DnsRecord address_record(const DnsQuestion& question, const Address& address, std::uint32_t ttl) {
  return {.name = question.name, .type = question.type, .ttl_seconds = ttl, .address = address};
}

// Something came that is no question: the sender is told, by the id it sent.
std::string format_error(std::string_view message) {
  if (message.size() < kHeaderBytes) {
    return {};
  }
  std::string answer(kHeaderBytes, '\0');
  answer[0] = message[0];
  answer[1] = message[1];
  answer[2] = static_cast<char>(0x80);
  answer[3] = static_cast<char>(DnsCode::kFormatError);
  return answer;
}

}  // namespace

Task<std::string> Service::answer(std::string message, Asked asked) {
  auto& machinery = session_.machinery();
  const Instant began = machinery.options.reactor.now();
  auto question = egress::read_dns_question(message);
  if (!question) {
    co_return format_error(message);
  }
  const std::size_t most = asked.transport == egress::Transport::kUdp ? question->udp_bytes
                                                                      : egress::kMaxDnsMessageBytes;
  if (rate_.available(began) <= 0 || open_ >= kMaxOpenQuestions) {
    machinery.instruments.dns_refused.add();
    co_return egress::write_dns_answer(*question, DnsCode::kRefused, {}, most);
  }
  rate_.take(1);
  ++open_;
  auto made = co_await reply(*question);
  --open_;
  CO_TRY(Reply reply, std::move(made));
  (reply.reason.empty() ? machinery.instruments.dns_answered : machinery.instruments.dns_refused)
      .add();
  record(*question, asked, reply, began);
  co_return egress::write_dns_answer(*question, reply.code, reply.records, most);
}

Task<Service::Reply> Service::reply(DnsQuestion question) {
  if (auto local = local_reply(question)) {
    co_return *std::move(local);
  }
  if (auto refused = refused_reply(question)) {
    co_return *std::move(refused);
  }
  if (!is_asked_upstream(question.type)) {
    co_return Reply{};  // the name may exist; it has nothing of this kind
  }
  co_return co_await resolve(std::move(question));
}

// Names that never leave this host.
std::optional<Service::Reply> Service::local_reply(const DnsQuestion& question) {
  const std::string& name = question.name;
  const egress::SandboxRules& rules = *session_.rules();
  Reply reply;
  const auto give = [&](const Address& v4, const Address& v6) {
    if (question.type == DnsType::kA) {
      reply.records.push_back(address_record(question, v4, kLocalTtlSeconds));
    } else if (question.type == DnsType::kAaaa) {
      reply.records.push_back(address_record(question, v6, kLocalTtlSeconds));
    }
  };
  if (is_below(name, "localhost")) {
    give(Address::v4(0x7f000001), *Address::parse("::1"));
    return reply;
  }
  if (!name.empty() && (name == rules.name || name == rules.sandbox_id)) {
    give(Address::v4(kOwnV4), *Address::parse(kOwnV6));
    return reply;
  }
  if (is_below(name, kPeerSuffix.substr(1))) {
    return peer_reply(question);
  }
  // Single labels and .local are the local network's; the canary must not exist.
  if (!name.contains('.') || is_below(name, "local") || is_private_reverse(name) ||
      name == kCanary) {
    reply.code = DnsCode::kNameError;
    return reply;
  }
  return std::nullopt;
}

Service::Reply Service::peer_reply(const DnsQuestion& question) {
  const egress::SandboxRules& rules = *session_.rules();
  Reply reply{.code = DnsCode::kNameError};
  const auto label = peer_label(question.name);
  if (!label) {
    return reply;
  }
  if (!egress::may_resolve(rules.stack(), question.name)) {
    reply.rule = "mode";
    reply.reason = concat("no rule could allow ", question.name);
    return reply;
  }
  const bool found = session_.machinery().options.peers.find(rules, *label).has_value();
  const auto address = found ? session_.peers().address_of(*label) : std::nullopt;
  if (address) {
    reply.code = DnsCode::kNoError;
    if (question.type == DnsType::kA) {
      reply.records.push_back(address_record(question, *address, kPeerTtlSeconds));
    }
  }
  return reply;
}

std::optional<Service::Reply> Service::refused_reply(const DnsQuestion& question) {
  const egress::SandboxRules& rules = *session_.rules();
  Reply reply{.code = DnsCode::kNameError};
  if (!egress::normal_dns_name(question.name)) {
    reply.rule = "malformed";
    reply.reason = "it is no name of a host";
    return reply;
  }
  if (!egress::may_resolve(rules.stack(), question.name)) {
    reply.rule = "mode";
    reply.reason = concat("no rule could allow ", question.name);
    return reply;
  }
  if (is_closed_resolver(rules, question.name)) {
    reply.rule = "encrypted-dns";
    reply.reason = concat(question.name, " is a resolver over HTTPS");
    return reply;
  }
  const Instant now = session_.machinery().options.reactor.now();
  if (is_asked_upstream(question.type) &&
      !session_.machinery().resolver.is_cached(question.name, question.type)) {
    if (const auto tunnel = tunnels_.refusal(question.name, now); !tunnel.empty()) {
      return Reply{.code = DnsCode::kRefused, .rule = "dns-tunnel", .reason = std::string{tunnel}};
    }
  }
  return std::nullopt;
}

Task<Service::Reply> Service::resolve(DnsQuestion question) {
  auto answer = co_await session_.machinery().resolver.lookup(question.name, question.type);
  Reply reply;
  if (!answer) {
    if (answer.error().code == Code::kCancelled) {
      co_return fail(std::move(answer).error());
    }
    reply.code = DnsCode::kServerFailure;
    reply.reason = answer.error().message;
    reply.failed = true;
    co_return reply;
  }
  reply.code = answer->code;
  reply.records = std::move(answer->records);
  filter(question, reply);
  co_return reply;
}

// Closed addresses go, the others are pinned to the name that was asked for.
void Service::filter(const DnsQuestion& question, Reply& reply) {
  auto& machinery = session_.machinery();
  const Instant now = machinery.options.reactor.now();
  std::string refusal;
  const auto before = reply.records.size();
  std::erase_if(reply.records, [&](const DnsRecord& record) {
    if (record.type != DnsType::kA && record.type != DnsType::kAaaa) {
      return false;
    }
    auto closed = machinery.guard.refusal(record.address);
    if (closed) {
      refusal = *std::move(closed);
      return true;
    }
    session_.pins().add(question.name, record.address, now);
    return false;
  });
  const bool none_left = std::ranges::none_of(reply.records, [](const DnsRecord& record) {
    return record.type == DnsType::kA || record.type == DnsType::kAaaa;
  });
  if (reply.records.size() < before && none_left) {
    reply.records.clear();
    reply.code = DnsCode::kNameError;
    reply.rule = "address-class";
    reply.reason = concat(question.name, " leads inside: ", refusal);
  }
}

void Service::record(const DnsQuestion& question, const Asked& asked, const Reply& reply,
                     Instant began) {
  auto& options = session_.machinery().options;
  egress::FlowRecord record;
  record.id = concat("dns-", random_hex(kIdDigits));
  record.sandbox_id = session_.rules()->sandbox_id;
  record.team_id = session_.rules()->team_id;
  record.duration_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(options.reactor.now() - began).count();
  record.began_at = options.clock.now() - record.duration_ms;
  record.transport = asked.transport;
  record.kind = "dns";
  record.protocol = egress::AppProtocol::kDns;
  record.source = asked.source.text();
  record.destination = asked.destination.text();
  record.name = question.name;
  record.outcome = reply.reason.empty() ? egress::Outcome::kAllowed
                   : reply.failed       ? egress::Outcome::kFailed
                                        : egress::Outcome::kDenied;
  record.origin = record.outcome == egress::Outcome::kDenied ? "dns" : "";
  record.rule = reply.rule;
  record.reason = reply.reason;
  std::string operation = concat(type_name(question.type), " ",
                                 reply.code == DnsCode::kNoError     ? "ok"
                                 : reply.code == DnsCode::kNameError ? "nxdomain"
                                 : reply.code == DnsCode::kRefused   ? "refused"
                                                                     : "failed");
  std::size_t named = 0;
  for (const DnsRecord& one : reply.records) {
    if ((one.type == DnsType::kA || one.type == DnsType::kAaaa) &&
        named++ < kMaxRecordedAddresses) {
      operation += concat(" ", one.address.text());
    }
  }
  record.operations.push_back(std::move(operation));
  options.flows.record(record);
}

}  // namespace atl::proxy::dns
