#include "proxy/http/trust.h"

#include <openssl/sha.h>

#include <algorithm>

#include "base/strings.h"

namespace atl::proxy::http {
namespace {

constexpr std::size_t kMaxContexts = 128;

std::vector<std::string> protocols_of(Offer offer) {
  switch (offer) {
    case Offer::kHttp1:
      return {"http/1.1"};
    case Offer::kHttp2:
      return {"h2"};
    case Offer::kBoth:
      return {"h2", "http/1.1"};
  }
  return {};
}

}  // namespace

std::string material_digest(const egress::Material* material) {
  if (material == nullptr) {
    return {};
  }
  const std::string all =
      concat(material->certificate_pem, "\n", material->key_pem, "\n", material->ca_pem);
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  ::SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
  return hex(digest);
}

std::shared_ptr<const tls::Context> Trust::find(const std::string& key) {
  const auto found = std::ranges::find(known_, key, &Known::key);
  if (found == known_.end()) {
    return nullptr;
  }
  known_.splice(known_.begin(), known_, found);
  return known_.front().context;
}

Task<std::shared_ptr<const tls::Context>> Trust::context(Surroundings& surroundings, Offer offer,
                                                         egress::MaterialPtr material) {
  const auto key = concat(static_cast<int>(offer), material_digest(material.get()));
  for (;;) {
    if (auto context = find(key)) {
      co_return context;
    }
    CO_TRY(const auto turn, co_await making_.begin(key));
    if (!turn) {
      continue;
    }
    tls::ClientOptions options{.trusted_pem = surroundings.upstream_roots_pem,
                               .protocols = protocols_of(offer),
                               .identity = {}};
    if (material) {
      options.identity = {material->certificate_pem, material->key_pem};
      if (!material->ca_pem.empty()) {
        options.trusted_pem = material->ca_pem;
      }
    }
    CO_TRY(std::shared_ptr<const tls::Context> context,
           co_await surroundings.threads.run([&] { return tls::Context::client(options); }));
    known_.push_front({key, context});
    if (known_.size() > kMaxContexts) {
      known_.pop_back();
    }
    co_return context;
  }
}

}  // namespace atl::proxy::http
