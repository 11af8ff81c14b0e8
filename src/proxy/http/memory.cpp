#include "proxy/http/memory.h"

namespace atl::proxy::http {

Memory& Memory::of(Surroundings& surroundings) {
  if (!surroundings.http_memory) {
    surroundings.http_memory = std::make_shared<Memory>();
  }
  return *surroundings.http_memory;
}

}  // namespace atl::proxy::http
