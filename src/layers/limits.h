// Every limit of this room, with its unit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atl::layers {

inline constexpr std::size_t kMaxNameBytes = 128;
// Below this btrfs cannot even hold an overlay's own directories.
inline constexpr std::uint64_t kMinUpperLimitBytes = 1ULL << 20;
// What a full upper gets for a moment, so that its account can be written.
inline constexpr std::uint64_t kAccountRoomBytes = 4ULL << 20;
// mkfs.btrfs refuses much less, and much less is of no use.
inline constexpr std::uint64_t kMinLoopBytes = 256ULL << 20;
// Without a wish, less than this is refused.
inline constexpr std::uint64_t kDefaultMinLoopBytes = 2ULL << 30;
// Of the host's file system, what a loop file must never be able to take.
inline constexpr std::uint64_t kMinHostReserveBytes = 1ULL << 30;
inline constexpr unsigned kHostReservePercent = 5;
inline constexpr unsigned kDefaultLoopPercent = 80;
// Open directories while walking a tree that a sandbox made.
inline constexpr std::size_t kMaxWalkDepth = 64;
// What the kernel allows for all names, and for one value.
inline constexpr std::size_t kMaxAttributeBytes = std::size_t{64} * 1024;
inline constexpr unsigned kMaxLoopAttempts = 64;
inline constexpr unsigned kDetachWaitMs = 5000;
inline constexpr unsigned kDetachNapMs = 5;
// A killed process's lock can outlive it in a child that has not reached its exec yet.
inline constexpr unsigned kLockWaitMs = 1000;
inline constexpr unsigned kLockNapMs = 10;
// Of a tool's complaint, what goes into the message.
inline constexpr std::size_t kMaxComplaintBytes = 2048;
// Written to disk in a few milliseconds: not worth two passes.
inline constexpr std::uint64_t kLittleUnwrittenBytes = 4ULL << 20;
inline constexpr std::size_t kMaxListedNames = 1U << 20;

}  // namespace atl::layers
