// Whom we believe to be a server, and as whom we come: TLS contexts towards servers.
//
// The roots are read once, on a pool thread. A context with a client certificate or an authority
// of its own is made for each version of its material, and a few of them are kept.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "proxy/connection.h"
#include "proxy/http/single_flight.h"
#include "tls/context.h"

namespace atl::proxy::http {

enum class Offer : std::uint8_t { kHttp1, kHttp2, kBoth };

class Trust {
 public:
  // `material` may be null: then the roots, and no client certificate.
  Task<std::shared_ptr<const tls::Context>> context(Surroundings& surroundings, Offer offer,
                                                    egress::MaterialPtr material);

 private:
  struct Known {
    std::string key;
    std::shared_ptr<const tls::Context> context;
  };
  std::shared_ptr<const tls::Context> find(const std::string& key);

  std::list<Known> known_;  // the most recently used first
  SingleFlight making_;
};

// Tells materials apart in keys of caches, without holding a secret; empty for none.
std::string material_digest(const egress::Material* material);

}  // namespace atl::proxy::http
