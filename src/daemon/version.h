#pragma once

namespace atl::daemon {
inline constexpr const char* kVersion = "0.1.0";
}  // namespace atl::daemon
