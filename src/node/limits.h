// Every limit of this room, with its unit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace atl::node {

// atolld keeps up to kMaxClientConnections open, one more to watch; the rest is for tools.
inline constexpr std::size_t kMaxServerConnections = 32;
inline constexpr std::size_t kMaxClientConnections = 16;
// Calls that wait for a disk, of those connections: the quick ones always find one.
inline constexpr std::size_t kMaxSlowCalls = 8;
// The same of creates that nobody waits for, and of what ends cells that nobody waits for: however
// many are to go, those who want one find connections.
inline constexpr std::size_t kMaxBackgroundCalls = 3;
inline constexpr std::size_t kMaxEndingCalls = 3;
inline constexpr std::size_t kMaxWaitingCalls = 4096;
inline constexpr int kListenBacklog = 64;
// Longer than the runtime's own deadline for a create, so that its better message arrives.
inline constexpr std::chrono::seconds kCallTimeout{60};
inline constexpr std::chrono::minutes kCommitTimeout{10};  // a large layer is written to disk
// Events that a watcher has not read yet; one that is slower than this is cut off.
inline constexpr int kWatchSendBufferBytes = 256 * 1024;

inline constexpr std::size_t kMaxRecordBytes = std::size_t{32} * 1024;
inline constexpr std::size_t kMaxCells = 1U << 16;
// Cells that wait for their end: all of them may.
inline constexpr std::size_t kMaxWaitingEndings = kMaxCells;
// Creates at once, see create_turns.h.
inline constexpr std::size_t kCreatesPerCore = 2;
inline constexpr std::size_t kMinCreatesAtOnce = 4;
inline constexpr std::size_t kMaxCreatesAtOnce = 12;
inline constexpr std::size_t kMostPassing = 32;
inline constexpr std::size_t kStopThreads = 8;
// How long a node that stops goes on beginning dumps. A supervisor waits a minute for it.
inline constexpr std::chrono::seconds kStopDumpTime{20};
// How much longer one that has begun may take: what is not done by then loses its memory.
inline constexpr std::chrono::seconds kStopDumpGrace{20};
// A dump, beside what much memory takes; kAnyTime asks for that.
inline constexpr std::chrono::seconds kDumpTime{60};
inline constexpr std::chrono::seconds kAnyTime{0};
// Free space of the pool below which no new disk is made: a fiftieth of it, within these.
inline constexpr std::uint64_t kMinPoolReserveBytes = 64ULL << 20;
inline constexpr std::uint64_t kMaxPoolReserveBytes = 256ULL << 20;
// Beyond a disk's limit while its overlay is mounted.
inline constexpr std::uint64_t kMountRoomBytes = 16ULL << 20;

// Host ids of sandboxes: slots of 65536 ids, claimed from the host in blocks of 2^24 ids. Slots
// begin at odd distances: the kernel finds users by a hash of the lower bits, and with whole
// multiples of 65536 all roots of all sandboxes are in one chain of it, as are all their first
// users.
inline constexpr std::uint32_t kIdsPerSlot = 1U << 16;
inline constexpr std::uint32_t kSlotDistance = kIdsPerSlot + 257;
inline constexpr std::uint32_t kIdsPerBlock = 1U << 24;
inline constexpr std::uint32_t kSlotsPerBlock = 255;
static_assert(static_cast<std::uint64_t>(kSlotsPerBlock) * kSlotDistance <= kIdsPerBlock);
inline constexpr std::uint32_t kFirstHostId = 0x70000000;
inline constexpr std::uint32_t kBlockCount = 128;  // up to below 0xF0000000

}  // namespace atl::node
