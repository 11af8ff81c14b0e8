// Finds placeholders that are about to be sent where they do not belong.
#pragma once

#include <string>
#include <vector>

#include "proxy/http/body_filter.h"

namespace atl::proxy::http {

inline constexpr std::string_view kMisdirectedPlaceholder =
    "the request carries the placeholder of a credential to a host it does not belong to";

// As it is, percent-encoded, in base64, or with JSON's escapes.
bool carries_placeholder(std::string_view text, const std::vector<std::string>& placeholders);

// The same over a body, however it is cut: a piece goes on only when it completes none.
class PlaceholderGuard final : public BodyFilter {
 public:
  explicit PlaceholderGuard(std::vector<std::string> placeholders);
  Result<std::string> feed(std::string_view bytes) override;
  Result<std::string> finish() override { return std::string{}; }

 private:
  std::vector<std::string> placeholders_;
  std::size_t reach_bytes_;  // of the longest one in its longest spelling
  std::string window_;
};

}  // namespace atl::proxy::http
