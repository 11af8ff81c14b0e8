#include "proxy/http/body_filter.h"

namespace atl::proxy::http {

Result<std::string> BodyFilters::pass(std::string_view bytes, bool last) {
  std::string text{bytes};
  for (const auto& one : filters_) {
    TRY(auto passed, one->feed(text));
    if (last) {
      TRY(const auto rest, one->finish());
      passed += rest;
    }
    text = std::move(passed);
  }
  return text;
}

}  // namespace atl::proxy::http
