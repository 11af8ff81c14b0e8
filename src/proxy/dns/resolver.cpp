#include "proxy/dns/resolver.h"

#include <algorithm>

#include "base/strings.h"
#include "proxy/dns/exchange.h"

namespace atl::proxy::dns {
namespace {

using egress::DnsAnswer;
using egress::DnsCode;
using egress::DnsType;

constexpr unsigned kRounds = 2;

Task<> wait(Event& event) {
  co_return co_await event.wait();
}

bool is_final(const DnsAnswer& answer) {
  return answer.code == DnsCode::kNoError || answer.code == DnsCode::kNameError;
}

}  // namespace

Task<> Resolver::run() {
  Scope scope{co_await current_context()};
  scope_ = &scope;
  Event never;
  auto ended = co_await never.wait();
  scope_ = nullptr;
  CO_TRY_DO(co_await scope.cancel_and_join());
  co_return std::move(ended);
}

const Resolver::Cached* Resolver::find(const Key& key, Instant now) {
  const auto found = cache_.find(key);
  if (found == cache_.end()) {
    return nullptr;
  }
  if (found->second.until <= now) {
    uses_.erase(found->second.use);
    cache_.erase(found);
    return nullptr;
  }
  uses_.splice(uses_.end(), uses_, found->second.use);
  return &found->second;
}

bool Resolver::is_cached(const std::string& name, DnsType type) const {
  const auto found = cache_.find({name, type});
  return found != cache_.end() && found->second.until > reactor_.now();
}

void Resolver::store(const Key& key, DnsAnswer answer) {
  if (answer.records.size() > kMaxCachedRecords) {
    return;
  }
  std::uint32_t seconds = kMaxTtlSeconds;
  for (const auto& record : answer.records) {
    seconds = std::min(seconds, record.ttl_seconds);
  }
  const Instant now = reactor_.now();
  const bool negative = answer.records.empty();
  const Duration time =
      negative ? Duration{kNegativeTime} : Duration{std::chrono::seconds{std::max(seconds, 1U)}};
  if (cache_.size() >= kMaxCachedAnswers) {
    cache_.erase(uses_.front());
    uses_.pop_front();
  }
  uses_.push_back(key);
  cache_.insert_or_assign(key, Cached{std::move(answer), now, now + time, std::prev(uses_.end())});
}

Task<DnsAnswer> Resolver::lookup(std::string name, DnsType type) {
  const Key key{std::move(name), type};
  const Instant now = reactor_.now();
  if (const Cached* cached = find(key, now)) {
    DnsAnswer answer = cached->answer;
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - cached->stored_at);
    for (auto& record : answer.records) {
      const auto passed = static_cast<std::uint32_t>(age.count());
      record.ttl_seconds = record.ttl_seconds > passed ? record.ttl_seconds - passed : 1;
    }
    co_return answer;
  }
  auto& known = under_way_[key];
  if (!known) {
    if (scope_ == nullptr || under_way_.size() > kMaxQuestionsUnderWay) {
      under_way_.erase(key);
      co_return fail(Code::kResourceExhausted, "too many names are being resolved");
    }
    known = std::make_shared<UnderWay>();
    const auto started = known;  // the entry may be gone when spawn returns
    scope_->spawn("dns question", ask(key, started));
    CO_TRY_DO(co_await wait(started->done));
    co_return started->result;
  }
  const auto shared = known;
  CO_TRY_DO(co_await wait(shared->done));
  co_return shared->result;
}

Task<> Resolver::ask(Key key, std::shared_ptr<UnderWay> under_way) {
  under_way->result = co_await ask_servers(key);
  if (under_way->result) {
    for (auto& record : under_way->result->records) {
      record.ttl_seconds = std::min(record.ttl_seconds, kMaxTtlSeconds);
    }
    store(key, *under_way->result);
  }
  under_way_.erase(key);
  under_way->done.set();
  co_return ok();
}

Task<DnsAnswer> Resolver::ask_servers(Key key) {
  const std::vector<Endpoint> servers = servers_.list(reactor_.now());
  Error last{Code::kUnavailable, "this host has no resolver; name one with --dns-upstream"};
  for (unsigned round = 0; round < kRounds; ++round) {
    for (const Endpoint& server : servers) {
      instruments_.dns_upstream.add();
      egress::DnsQuestion question{.name = key.first, .type = key.second};
      auto answer = co_await ask_server(reactor_, server, std::move(question));
      if (answer && is_final(*answer)) {
        co_return *std::move(answer);
      }
      if (!answer && answer.error().code == Code::kCancelled) {
        co_return fail(std::move(answer).error());
      }
      last = answer ? Error{Code::kUnavailable, concat(server.text(), " cannot resolve it")}
                    : std::move(answer).error();
    }
  }
  co_return fail(std::move(last));
}

Task<std::vector<egress::Address>> Resolver::addresses(std::string name, bool v6_first) {
  std::vector<egress::Address> addresses;
  Error last{Code::kNotFound, concat(name, " has no address")};
  const DnsType first = v6_first ? DnsType::kAaaa : DnsType::kA;
  const DnsType second = v6_first ? DnsType::kA : DnsType::kAaaa;
  for (const DnsType type : {first, second}) {
    // The other family is only asked for when the first has nothing, or when it is known already.
    if (!addresses.empty() && !is_cached(name, type)) {
      break;
    }
    auto answer = co_await lookup(name, type);
    if (!answer) {
      if (answer.error().code == Code::kCancelled) {
        co_return fail(std::move(answer).error());
      }
      last = std::move(answer).error();
      continue;
    }
    for (const auto& record : answer->records) {
      if (record.type == type) {
        addresses.push_back(record.address);
      }
    }
  }
  if (addresses.empty()) {
    co_return fail(std::move(last));
  }
  co_return addresses;
}

}  // namespace atl::proxy::dns
