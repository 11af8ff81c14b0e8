// The resolver as one sandbox sees it: which names it may ask for, and which answers it gets.
//
// A name that no rule could allow does not exist for it, so that DNS is no way out. Addresses of
// closed classes are taken out of answers, so that no name leads inside; HTTPS and SVCB records,
// which would bring encrypted hellos and HTTP/3, are never given. What was answered is pinned.
#pragma once

#include "egress/boundary.h"
#include "egress/dns_message.h"
#include "proxy/dns/resolver.h"
#include "proxy/dns/tunnel_guard.h"
#include "proxy/endpoint.h"

namespace atl::proxy {
class SandboxSession;
}

namespace atl::proxy::dns {

inline constexpr std::uint64_t kQuestionsPerSecond = 100;
inline constexpr std::uint64_t kQuestionsBurst = 500;
inline constexpr std::size_t kMaxOpenQuestions = 64;

// How a question came.
struct Asked {
  egress::Transport transport = egress::Transport::kUdp;
  Endpoint source;
  Endpoint destination;
};

class Service {
 public:
  explicit Service(SandboxSession& session)
      : session_(session), rate_(kQuestionsPerSecond, kQuestionsBurst) {}

  // The answer to one message; empty when none is due.
  Task<std::string> answer(std::string message, Asked asked);

 private:
  struct Reply {
    egress::DnsCode code = egress::DnsCode::kNoError;
    std::vector<egress::DnsRecord> records;
    std::string rule;    // of a refusal
    std::string reason;  // the same
    bool failed = false;
  };

  Task<Reply> reply(egress::DnsQuestion question);
  Task<Reply> resolve(egress::DnsQuestion question);
  std::optional<Reply> local_reply(const egress::DnsQuestion& question);
  std::optional<Reply> refused_reply(const egress::DnsQuestion& question);
  Reply peer_reply(const egress::DnsQuestion& question);
  void filter(const egress::DnsQuestion& question, Reply& reply);
  void record(const egress::DnsQuestion& question, const Asked& asked, const Reply& reply,
              Instant began);

  SandboxSession& session_;
  TokenBucket rate_;
  TunnelGuard tunnels_;
  std::size_t open_ = 0;
};

}  // namespace atl::proxy::dns
