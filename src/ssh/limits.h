// Every bound of this room, in one place. What a peer makes us hold is bounded per channel by its
// window (libssh's, about 1.3 MB), per session by the number of channels, and by whoever accepts
// sessions in number.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/loop.h"

namespace atl::ssh {

inline constexpr Duration kDefaultLoginTime = std::chrono::seconds{30};
inline constexpr unsigned kMaxLoginTries = 20;  // offers of keys count: agents have many
inline constexpr std::size_t kMaxChannels = 10;
inline constexpr std::size_t kMaxForwards = 64;         // connections through one session
inline constexpr std::size_t kMaxWaitingRequests = 64;  // of one channel
inline constexpr std::size_t kMaxRequestBytes = std::size_t{128} * 1024;
inline constexpr std::size_t kMaxUserBytes = 256;
// Between two looks at what is waiting to be written: what one write hands to libssh.
inline constexpr std::size_t kPieceBytes = std::size_t{32} * 1024;
inline constexpr unsigned kMaxReadsPerTurn = 16;
// Saying goodbye: how long what was written may take to get out.
inline constexpr Duration kFarewellTime = std::chrono::seconds{2};

}  // namespace atl::ssh
