// What this room remembers between connections: leaves it has minted, TLS contexts, and how much
// of the bodies of all sandboxes is held in memory right now.
#pragma once

#include <memory>
#include <string>

#include "proxy/connection.h"
#include "proxy/http/held_bytes.h"
#include "proxy/http/leaf_cache.h"
#include "proxy/http/trust.h"

namespace atl::proxy::http {

class Memory {
 public:
  static Memory& of(Surroundings& surroundings);

  LeafCache leaves;
  Trust trust;
  HeldBytes held;
};

}  // namespace atl::proxy::http
