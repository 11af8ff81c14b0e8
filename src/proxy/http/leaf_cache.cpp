#include "proxy/http/leaf_cache.h"

#include "base/strings.h"
#include "proxy/http/limits.h"
#include "tls/mint.h"

namespace atl::proxy::http {
namespace {

constexpr std::int64_t kFreshMs = std::int64_t{kLeafDays} * 12 * 3600 * 1000;

Result<std::unique_ptr<tls::Context>> mint(const egress::Authority& authority,
                                           const std::string& name) {
  const tls::Identity issuer{authority.certificate_pem, authority.key_pem};
  TRY(auto identity,
      tls::mint_leaf(issuer, {.names = {name}, .valid_days = kLeafDays, .without_subject = true}));
  return tls::Context::server({.identity = std::move(identity), .protocols = {"h2", "http/1.1"}});
}

}  // namespace

std::shared_ptr<const tls::Context> LeafCache::find(const std::string& key,
                                                    const egress::Authority& authority,
                                                    UnixMillis now) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    return nullptr;
  }
  const Leaf& leaf = *found->second;
  if (leaf.authority_pem != authority.certificate_pem || now - leaf.made_at >= kFreshMs ||
      now < leaf.made_at) {
    return nullptr;
  }
  leaves_.splice(leaves_.begin(), leaves_, found->second);
  return leaf.context;
}

Task<std::shared_ptr<const tls::Context>> LeafCache::leaf(Surroundings& surroundings,
                                                          std::string sandbox_id,
                                                          std::string name) {
  CO_TRY(const auto authority, co_await surroundings.authorities.authority(sandbox_id));
  if (!authority) {
    co_return fail(Code::kFailedPrecondition, "the sandbox has no certificate authority");
  }
  const auto key = concat(sandbox_id, " ", name);
  for (;;) {
    const auto now = surroundings.clock.now();
    if (auto context = find(key, *authority, now)) {
      co_return context;
    }
    CO_TRY(const auto turn, co_await minting_.begin(key));
    if (!turn) {
      continue;
    }
    CO_TRY(std::shared_ptr<const tls::Context> context,
           co_await surroundings.threads.run([&] { return mint(*authority, name); }));
    keep({.key = key,
          .authority_pem = authority->certificate_pem,
          .made_at = now,
          .context = context});
    co_return context;
  }
}

void LeafCache::keep(Leaf leaf) {
  if (const auto found = by_key_.find(leaf.key); found != by_key_.end()) {
    leaves_.erase(found->second);
    by_key_.erase(found);
  }
  leaves_.push_front(std::move(leaf));
  by_key_[leaves_.front().key] = leaves_.begin();
  while (leaves_.size() > kMaxLeaves) {
    by_key_.erase(leaves_.back().key);
    leaves_.pop_back();
  }
}

}  // namespace atl::proxy::http
