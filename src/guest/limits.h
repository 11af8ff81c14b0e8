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
// Before a dump: what a process that shares an image copies at most, how long its threads may take
// to stop, and when no other process or part of one is begun. The host waits for at least that
// long, unless it stops itself (runtime/namespaces/criu_dump.cpp).
inline constexpr std::uint64_t kMaxOwnedBytes = 512ULL * 1024 * 1024;
inline constexpr std::int64_t kStoppingMs = 2000;
inline constexpr std::int64_t kOwningMs = 8000;
// What stays free beside the copies.
inline constexpr std::uint64_t kOwningReserveBytes = 16ULL * 1024 * 1024;
// Looking for who has a socket: at once, for how long, and how much of /proc is read for it.
inline constexpr std::size_t kMaxSocketSearches = 8;
inline constexpr unsigned kSocketSearchSeconds = 2;
inline constexpr std::size_t kMaxSocketTableBytes = std::size_t{16} * 1024 * 1024;
inline constexpr std::size_t kMaxScannedDescriptors = std::size_t{64} * 1024;
// Pipes whose process has ended but whose other end a background child still holds.
inline constexpr std::size_t kMaxOrphanPipes = 256;

// Above this many bytes not yet taken by the client, no more output is encoded for it.
inline constexpr std::size_t kMaxUnsentBytes = std::size_t{128} * 1024;
// How far the slowest connected reader may lag before the process's pipes are no longer read.
inline constexpr std::size_t kReaderWindowBytes = std::size_t{256} * 1024;
// Above this many bytes not yet taken by the process, its clients are no longer read.
inline constexpr std::size_t kMaxPendingInputBytes = std::size_t{64} * 1024;
inline constexpr std::size_t kJournalChunkBytes = std::size_t{64} * 1024;
// Over all processes; beyond it the journal that grows forgets its own oldest bytes first.
inline constexpr std::uint64_t kMaxTotalJournalBytes = 64ULL * 1024 * 1024;
// One kOutput frame.
inline constexpr std::size_t kMaxPieceBytes = std::size_t{64} * 1024;
// One kData frame of a file: large, because each costs a wake-up on both sides.
inline constexpr std::size_t kMaxFilePieceBytes = std::size_t{256} * 1024;

inline constexpr std::int64_t kRemoveGraceMs = 5000;
// A shell that was just about to read can miss a hang-up; it gets another one.
inline constexpr std::int64_t kHangUpAgainMs = 200;
// How long a process whose unread output fills its journal waits for its first reader.
inline constexpr std::int64_t kFirstReaderGraceMs = 5000;
// A terminal's kernel buffers hold less than this; what a dead leader wrote is within it.
inline constexpr std::size_t kMaxTerminalDrainBytes = std::size_t{128} * 1024;
inline constexpr std::size_t kMaxAccountFileBytes = std::size_t{1024} * 1024;
// Bundles of certificates, and the variables that name them.
inline constexpr std::size_t kMaxTrustFileBytes = std::size_t{16} * 1024 * 1024;
inline constexpr std::size_t kMaxTrustVariablesBytes = std::size_t{16} * 1024;
inline constexpr std::size_t kMaxTrustEntries = std::size_t{16} * 1024;  // of /etc/ssl/certs
inline constexpr int kTrustToolMs = 20'000;                              // one run of certutil
inline constexpr std::uint32_t kMaxTrustCertificates = 4096;
inline constexpr std::size_t kMaxSupplementaryGroups = 256;
inline constexpr std::size_t kMaxStatusBytes = std::size_t{32} * 1024;
// Directories held open at once while a tree is removed.
inline constexpr std::size_t kMaxRemoveDepth = 200;
// How much of a refused upload is read and thrown away so that the client sees the answer.
inline constexpr std::size_t kMaxRefusedUploadBytes = std::size_t{4} * 1024 * 1024;

// Directories one kWatch may have; the kernel's memory for them is the sandbox's.
inline constexpr std::size_t kMaxWatches = 8192;
// Directories of a tree that is written wait for their mode and times until its end.
inline constexpr std::size_t kMaxTreeDirectoryBytes = std::size_t{64} * 1024 * 1024;
// The first names of files with several, while a tree is read.
inline constexpr std::size_t kMaxTreeNameBytes = std::size_t{32} * 1024 * 1024;
// Names of directories under way while trees are compared.
inline constexpr std::size_t kMaxDiffNameBytes = std::size_t{128} * 1024 * 1024;
// How long a client of a comparison may see nothing.
inline constexpr std::int64_t kDiffAliveMs = 5000;
// A search may have this much more memory than it starts with: expressions can ask for any amount.
inline constexpr std::size_t kMaxSearchMemoryBytes = std::size_t{256} * 1024 * 1024;
inline constexpr std::size_t kMaxSearchLineBytes = std::size_t{8} * 1024 * 1024;
// A file with a NUL byte within its first bytes is binary.
inline constexpr std::size_t kBinaryProbeBytes = std::size_t{8} * 1024;

}  // namespace atl::guest
