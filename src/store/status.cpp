// The names of sandbox states, as stored and as the API shows them.
#include <array>

#include "store/room.h"

namespace atl::store {
namespace {

constexpr std::array<std::string_view, 5> kNames{"starting", "running", "paused", "terminating",
                                                 "failed"};

}  // namespace

std::string_view status_name(SandboxStatus status) {
  return kNames[static_cast<std::size_t>(status)];
}

std::optional<SandboxStatus> parse_status(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) {
      return static_cast<SandboxStatus>(i);
    }
  }
  return std::nullopt;
}

}  // namespace atl::store
