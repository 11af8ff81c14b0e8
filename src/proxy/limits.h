// Every limit of the proxy in one place. A sandbox is hostile: whatever it can make us keep or wait
// for has a number here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace atl::proxy {

// Connections of one sandbox when neither its rules nor the operator say another number.
inline constexpr std::uint32_t kDefaultConnections = 1024;
// Accepted in one turn of the loop, so that a flood of one sandbox leaves the others their turns.
inline constexpr unsigned kMaxAcceptsPerTurn = 32;

// How long a client may be silent before we ask the server instead (its protocol may be one in
// which the server speaks first), and how long it may take to finish what it began to say.
inline constexpr std::chrono::milliseconds kSilence{300};
inline constexpr std::chrono::seconds kFirstBytesTime{10};
// A refused client is told why when it speaks within this time; else it is reset.
inline constexpr std::chrono::milliseconds kRefusalPatience{250};
inline constexpr std::chrono::seconds kFarewellTime{1};

inline constexpr std::chrono::seconds kConnectTime{10};
// The next address is tried beside the one that has not answered for so long.
inline constexpr std::chrono::milliseconds kNextAddressAfter{250};
inline constexpr std::size_t kMaxDialledAddresses = 6;

inline constexpr std::chrono::hours kIdleTime{2};
inline constexpr std::chrono::seconds kSweepEvery{15};

// One direction of one connection moves at most this much before others have their turn.
inline constexpr std::size_t kBytesPerTurn = std::size_t{256} << 10;
inline constexpr std::size_t kCopyBytes = std::size_t{64} << 10;
inline constexpr std::size_t kPipeBytes = std::size_t{256} << 10;
inline constexpr std::size_t kMaxIdlePipes = 16;
inline constexpr std::size_t kMaxPipes = 128;

// The record of a flow waits this long for the sandbox to say who opened it.
inline constexpr std::chrono::milliseconds kOpenerTime{400};

}  // namespace atl::proxy
