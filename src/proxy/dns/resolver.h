// The resolver that all sandboxes share: a cache before the upstream servers.
//
// A question that is on its way is asked once, however many wait for it; it goes on when the first
// who asked has gone. Bounded in entries, in time and in questions under way.
#pragma once

#include <list>
#include <map>
#include <memory>

#include "base/scope.h"
#include "egress/dns_message.h"
#include "proxy/dialer.h"
#include "proxy/dns/servers.h"
#include "proxy/instruments.h"

namespace atl::proxy::dns {

inline constexpr std::size_t kMaxCachedAnswers = 8192;
inline constexpr std::size_t kMaxCachedRecords = 64;  // of one answer; longer ones are not kept
inline constexpr std::size_t kMaxQuestionsUnderWay = 1024;
inline constexpr std::uint32_t kMaxTtlSeconds = 300;
inline constexpr std::chrono::seconds kNegativeTime{15};

class Resolver final : public Names {
 public:
  Resolver(io::Reactor& reactor, Servers servers, Instruments& instruments)
      : reactor_(reactor), servers_(std::move(servers)), instruments_(instruments) {}

  // Asks what it is asked, until cancelled.
  Task<> run();
  // An answer with kNoError or kNameError, its lifetimes capped and counted down. REQUIRES: a name
  // in normal form.
  Task<egress::DnsAnswer> lookup(std::string name, egress::DnsType type);
  bool is_cached(const std::string& name, egress::DnsType type) const;
  Task<std::vector<egress::Address>> addresses(std::string name, bool v6_first) override;

 private:
  using Key = std::pair<std::string, egress::DnsType>;
  struct Cached {
    egress::DnsAnswer answer;
    Instant stored_at;
    Instant until;
    std::list<Key>::iterator use;
  };
  // Shared by the task that asks and those who wait.
  struct UnderWay {
    Event done;
    Result<egress::DnsAnswer> result = fail(Code::kUnavailable, "not asked");
  };

  Task<> ask(Key key, std::shared_ptr<UnderWay> under_way);
  Task<egress::DnsAnswer> ask_servers(Key key);
  const Cached* find(const Key& key, Instant now);
  void store(const Key& key, egress::DnsAnswer answer);

  io::Reactor& reactor_;
  Servers servers_;
  Instruments& instruments_;
  std::map<Key, Cached> cache_;
  std::list<Key> uses_;  // the longest unused first
  std::map<Key, std::shared_ptr<UnderWay>> under_way_;
  Scope* scope_ = nullptr;  // while it runs
};

}  // namespace atl::proxy::dns
