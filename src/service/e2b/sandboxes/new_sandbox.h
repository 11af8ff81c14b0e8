// The body of a create, v1 and v2, as a claim and its terms.
#pragma once

#include <functional>
#include <string>

#include "control/sandbox_requests.h"
#include "control/terms.h"

namespace atl::service::e2b {

enum class CreateVersion : std::uint8_t { kV1, kV2 };

inline constexpr std::int64_t kMaxTimeoutSeconds = std::int64_t{30} * 24 * 3600;
inline constexpr std::int64_t kDefaultTimeoutSeconds = 300;
inline constexpr std::int64_t kShortTimeoutSeconds = 15;  // of v1, and of forks

struct NewSandbox {
  control::ClaimRequest claim;  // without team and documents
  control::Terms terms;
  std::string asked_template;
  bool has_mcp = false;
};

// For parts that add to a claim what they know of its body (networks, volumes). They have seen
// nothing of it checked.
using ClaimMapper =
    std::function<Result<>(const std::string& team_id, const Json& body, NewSandbox& made)>;

Result<NewSandbox> parse_new_sandbox(const Json& body, CreateVersion version);
// 1 to kMaxTimeoutSeconds.
Result<> check_timeout(std::int64_t seconds);

}  // namespace atl::service::e2b
