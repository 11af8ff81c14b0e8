// Every bound of the agent, in one place. The agent shares its sandbox's memory limit, so what it
// holds for others is bounded per connection, per process and in total.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atl::guest {

inline constexpr std::size_t kMaxConnections = 1024;
inline constexpr std::size_t kMaxProcesses = 1024;
inline constexpr std::size_t kMaxFileWorkers = 128;
inline constexpr std::size_t kMaxWatchers = 64;
inline constexpr std::size_t kMaxCaptures = 16;
inline constexpr unsigned kCaptureSeconds = 30;
// Pipes whose process has ended but whose other end a background child still holds.
inline constexpr std::size_t kMaxOrphanPipes = 256;

// Above this many bytes not yet taken by the client, no more output is encoded for it.
inline constexpr std::size_t kMaxUnsentBytes = 128 * 1024;
// How far the slowest connected reader may lag before the process's pipes are no longer read.
inline constexpr std::size_t kReaderWindowBytes = 256 * 1024;
// Above this many bytes not yet taken by the process, its clients are no longer read.
inline constexpr std::size_t kMaxPendingInputBytes = 64 * 1024;
inline constexpr std::size_t kJournalChunkBytes = 64 * 1024;
// Over all processes; beyond it the journal that grows forgets its own oldest bytes first.
inline constexpr std::uint64_t kMaxTotalJournalBytes = 64ULL * 1024 * 1024;
// One kOutput frame.
inline constexpr std::size_t kMaxPieceBytes = 64 * 1024;
// One kData frame of a file: large, because each costs a wake-up on both sides.
inline constexpr std::size_t kMaxFilePieceBytes = 256 * 1024;

inline constexpr std::int64_t kRemoveGraceMs = 5000;
// A shell that was just about to read can miss a hang-up; it gets another one.
inline constexpr std::int64_t kHangUpAgainMs = 200;
// How long a process whose unread output fills its journal waits for its first reader.
inline constexpr std::int64_t kFirstReaderGraceMs = 5000;
// A terminal's kernel buffers hold less than this; what a dead leader wrote is within it.
inline constexpr std::size_t kMaxTerminalDrainBytes = 128 * 1024;
inline constexpr std::size_t kMaxAccountFileBytes = 1024 * 1024;
inline constexpr std::size_t kMaxSupplementaryGroups = 256;
inline constexpr std::size_t kMaxStatusBytes = 32 * 1024;
// Directories held open at once while a tree is removed.
inline constexpr std::size_t kMaxRemoveDepth = 200;
// How much of a refused upload is read and thrown away so that the client sees the answer.
inline constexpr std::size_t kMaxRefusedUploadBytes = 4 * 1024 * 1024;

// Directories one kWatch may have; the kernel's memory for them is the sandbox's.
inline constexpr std::size_t kMaxWatches = 8192;
// Directories of a tree that is written wait for their mode and times until its end.
inline constexpr std::size_t kMaxTreeDirectoryBytes = 64 * 1024 * 1024;
// The first names of files with several, while a tree is read.
inline constexpr std::size_t kMaxTreeNameBytes = 32 * 1024 * 1024;
// Names of directories under way while trees are compared.
inline constexpr std::size_t kMaxDiffNameBytes = 128 * 1024 * 1024;
// How long a client of a comparison may see nothing.
inline constexpr std::int64_t kDiffAliveMs = 5000;
// A search may have this much more memory than it starts with: expressions can ask for any amount.
inline constexpr std::size_t kMaxSearchMemoryBytes = 256 * 1024 * 1024;
inline constexpr std::size_t kMaxSearchLineBytes = 8 * 1024 * 1024;
// A file with a NUL byte within its first bytes is binary.
inline constexpr std::size_t kBinaryProbeBytes = 8 * 1024;

}  // namespace atl::guest
