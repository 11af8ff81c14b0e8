// The names of the states of sandboxes and templates and of access modes, as stored and as the API
// shows them.
#include <array>

#include "store/room.h"

namespace atl::store {
namespace {

constexpr std::array<std::string_view, 5> kNames{"starting", "running", "paused", "terminating",
                                                 "failed"};
constexpr std::array<std::string_view, 3> kTemplateNames{"creating", "ready", "failed"};
constexpr std::array<std::string_view, 3> kAccessModes{"RWO", "ROX", "RWX"};

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

std::string_view template_state_name(TemplateState state) {
  return kTemplateNames[static_cast<std::size_t>(state)];
}

std::optional<TemplateState> parse_template_state(std::string_view name) {
  for (std::size_t i = 0; i < kTemplateNames.size(); ++i) {
    if (kTemplateNames[i] == name) {
      return static_cast<TemplateState>(i);
    }
  }
  return std::nullopt;
}

std::string_view access_mode_name(AccessMode mode) {
  return kAccessModes[static_cast<std::size_t>(mode)];
}

std::optional<AccessMode> parse_access_mode(std::string_view name) {
  for (std::size_t i = 0; i < kAccessModes.size(); ++i) {
    if (kAccessModes[i] == name) {
      return static_cast<AccessMode>(i);
    }
  }
  return std::nullopt;
}

}  // namespace atl::store
