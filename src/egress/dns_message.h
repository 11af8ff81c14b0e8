// DNS messages, as far as a resolver that filters needs them.
//
// Sans-IO. A question from a sandbox is parsed strictly: one question, class IN, no compression in
// the name. An answer from upstream is parsed into the few record types that clients need and is
// written anew: what was not understood is not passed on. So nothing of an answer is forwarded as
// raw bytes: HTTPS and SVCB records (which would carry ECH keys and HTTP/3 hints) are dropped,
// addresses are checked by the caller, lifetimes are capped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "egress/address.h"

namespace atl::egress {

inline constexpr std::size_t kMaxDnsMessageBytes = 65535;
inline constexpr std::size_t kMaxDnsRecords = 256;

enum class DnsType : std::uint16_t {
  kA = 1,
  kNs = 2,
  kCname = 5,
  kSoa = 6,
  kPtr = 12,
  kMx = 15,
  kTxt = 16,
  kAaaa = 28,
  kSrv = 33,
  kSvcb = 64,
  kHttps = 65,
  kAny = 255,
};

enum class DnsCode : std::uint8_t {
  kNoError = 0,
  kFormatError = 1,
  kServerFailure = 2,
  kNameError = 3,
  kNotImplemented = 4,
  kRefused = 5,
};

struct DnsQuestion {
  std::uint16_t id = 0;
  std::string name;  // lower case, no trailing dot; labels checked
  DnsType type = DnsType::kA;
  bool recursion_desired = true;
  // What the client takes over UDP: 512, or what its OPT record says.
  std::uint16_t udp_bytes = 512;
  bool has_opt = false;
};

struct DnsRecord {
  std::string name;
  DnsType type = DnsType::kA;
  std::uint32_t ttl_seconds = 0;
  Address address;                 // A, AAAA
  std::string target;              // CNAME, NS, PTR, MX, SRV
  std::uint16_t priority = 0;      // MX, SRV
  std::uint16_t weight = 0;        // SRV
  std::uint16_t port = 0;          // SRV
  std::vector<std::string> texts;  // TXT
  bool operator==(const DnsRecord&) const = default;
};

struct DnsAnswer {
  std::uint16_t id = 0;
  std::string name;
  DnsType type = DnsType::kA;
  DnsCode code = DnsCode::kNoError;
  bool truncated = false;
  std::vector<DnsRecord> records;
};

// A client's question.
Result<DnsQuestion> read_dns_question(std::string_view message);
// An upstream's answer; only records of the types above that lead from the question's name.
Result<DnsAnswer> read_dns_answer(std::string_view message);

// A question for upstream, with a random id of the caller's.
std::string write_dns_question(const DnsQuestion& question);
// The answer to a question, at most `most_bytes` long: cut with the truncation bit set.
std::string write_dns_answer(const DnsQuestion& question, DnsCode code,
                             const std::vector<DnsRecord>& records, std::size_t most_bytes);

}  // namespace atl::egress
