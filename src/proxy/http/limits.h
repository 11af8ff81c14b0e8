// The limits of this room, in one place.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/loop.h"
#include "http/http1_gate.h"

namespace atl::proxy::http {

inline constexpr atl::http::HeadLimits kHeadLimits{.bytes = std::size_t{64} * 1024, .count = 128};
inline constexpr std::size_t kPieceBytes = std::size_t{64} * 1024;  // of a body, at a time
// A body that must be seen whole before it goes on (its length changes, or MCP).
inline constexpr std::size_t kMaxHeldBodyBytes = std::size_t{1} << 20;
inline constexpr Duration kHeldBodyTime = std::chrono::seconds{60};
// All held bodies of a sandbox, and of all sandboxes together.
inline constexpr std::size_t kMaxSandboxHeldBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxHeldBytes = std::size_t{128} << 20;
inline constexpr std::size_t kMaxAnswerBytes = std::size_t{4} << 20;  // of an MCP answer in JSON
// Of one connection of a sandbox: to servers, and requests that wait for one of those.
inline constexpr std::size_t kMaxUpstreams = 16;
inline constexpr std::size_t kMaxWaitingRequests = 128;
inline constexpr std::size_t kMaxLeaves = 4096;
inline constexpr int kLeafDays = 3;

inline constexpr Duration kHandshakeTime = std::chrono::seconds{10};
inline constexpr Duration kHeadTime = std::chrono::seconds{30};   // from its first byte
inline constexpr Duration kIdleTime = std::chrono::seconds{120};  // between requests
inline constexpr Duration kStallTime = std::chrono::seconds{60};  // a client that stops in between
inline constexpr Duration kDialTime = std::chrono::seconds{30};
inline constexpr Duration kUpstreamIdleTime = std::chrono::seconds{50};
inline constexpr Duration kLingerTime = std::chrono::seconds{2};
inline constexpr std::size_t kLingerBytes = std::size_t{8} << 20;

}  // namespace atl::proxy::http
