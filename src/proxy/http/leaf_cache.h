// Certificates in the name of servers, one for each sandbox and name.
//
// A leaf is signed by the sandbox's own authority, has the name as its only identity and lives a
// few days; it is made anew after half of that, or when the authority changed. Every leaf has its
// own TLS context and with it its own ticket keys: a session can be resumed for the same sandbox
// and name and nowhere else.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "proxy/connection.h"
#include "proxy/http/single_flight.h"
#include "tls/context.h"

namespace atl::proxy::http {

class LeafCache {
 public:
  // For a TLS server in the place of `name`.
  Task<std::shared_ptr<const tls::Context>> leaf(Surroundings& surroundings, std::string sandbox_id,
                                                 std::string name);

 private:
  struct Leaf {
    std::string key;
    std::string authority_pem;
    UnixMillis made_at = 0;
    std::shared_ptr<const tls::Context> context;
  };
  std::shared_ptr<const tls::Context> find(const std::string& key,
                                           const egress::Authority& authority, UnixMillis now);
  void keep(Leaf leaf);

  std::list<Leaf> leaves_;  // the most recently used first
  std::unordered_map<std::string, std::list<Leaf>::iterator> by_key_;
  SingleFlight minting_;
};

}  // namespace atl::proxy::http
