// Every bound of control, in one place.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/loop.h"

namespace atl::control {

// --- talking to a guest -----------------------------------------------------------------------
inline constexpr Duration kGuestConnectTimeout = std::chrono::seconds{5};
// From a request to the first frame of its answer.
inline constexpr Duration kGuestAnswerTimeout = std::chrono::seconds{30};
// Between two frames of an answer, and for the rest of a frame whose first byte has come.
inline constexpr Duration kGuestStallTimeout = std::chrono::seconds{60};
inline constexpr Duration kGuestListTimeout = std::chrono::seconds{120};  // a whole listing
// Asking for the reason after a write to the guest has failed.
inline constexpr Duration kGuestReasonTimeout = std::chrono::seconds{1};
inline constexpr std::size_t kMaxListedProcesses = 4096;
inline constexpr std::size_t kMaxListedFiles = 100'000;
// Names and paths of one listing together: a hostile guest must not fill our memory.
inline constexpr std::size_t kMaxListedBytes = 64U << 20;

// --- talking to the node ----------------------------------------------------------------------
inline constexpr Duration kNodeTimeout = std::chrono::seconds{60};
inline constexpr Duration kNodeFirstRetry = std::chrono::milliseconds{50};
inline constexpr Duration kNodeLastRetry = std::chrono::seconds{2};

// --- sandboxes --------------------------------------------------------------------------------
inline constexpr std::size_t kMaxRestarts = 3;  // within kRestartWindow, then the sandbox failed
inline constexpr std::int64_t kRestartWindowMs = 60'000;
inline constexpr std::int64_t kMaxTtlSeconds = 10LL * 366 * 24 * 3600;
inline constexpr std::size_t kMaxEnvVariables = 1024;
inline constexpr std::size_t kMaxEnvBytes = 64 * 1024;
inline constexpr std::size_t kMaxSandboxIdBytes = 55;
// The wall clock may be set while we wait, so no wait for an expiry is longer than this.
inline constexpr std::int64_t kMaxExpiryWaitMs = 30'000;

// --- contexts ---------------------------------------------------------------------------------
inline constexpr std::size_t kMaxCaptureBytes = 16U << 20;        // per stream of one answer
inline constexpr std::size_t kMaxTotalCaptureBytes = 512U << 20;  // of all answers being collected
inline constexpr std::size_t kMaxBackgroundInputs = 256;
inline constexpr std::size_t kInputPieceBytes = 64 * 1024;

}  // namespace atl::control
