// Responses, as our client reads them.
#include "http/http1_vectors.h"
#include "http1.h"

namespace atl::fuzz {

void http1_response(std::string_view input) {
  same_for_every_cut(
      input, [](const auto& parts) { return read_connection(http::Role::kResponse, parts); });
}

Seeds http1_response_seeds() {
  Seeds seeds;
  for (const auto& vector : http::response_vectors()) {
    if (vector.bytes.size() < 4096) {
      seeds.push_back(vector.bytes);
    }
  }
  return seeds;
}

}  // namespace atl::fuzz
