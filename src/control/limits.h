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
// Certificates that go to many places; some through tools of the sandbox.
inline constexpr Duration kTrustTimeout = std::chrono::seconds{90};
inline constexpr Duration kGuestSyncTimeout = std::chrono::minutes{5};
inline constexpr Duration kGuestListTimeout = std::chrono::seconds{120};  // a whole listing
// Asking for the reason after a write to the guest has failed.
inline constexpr Duration kGuestReasonTimeout = std::chrono::seconds{1};
inline constexpr std::size_t kMaxListedProcesses = 4096;
inline constexpr std::size_t kMaxListedFiles = 100'000;
// Names and paths of one listing together: a hostile guest must not fill our memory.
inline constexpr std::size_t kMaxListedBytes = 64U << 20;

// --- talking to the node ----------------------------------------------------------------------
inline constexpr Duration kNodeTimeout = std::chrono::seconds{60};
// Rules of a sandbox's network; those that could not be had are asked for again after the pause.
inline constexpr Duration kRulesTimeout = std::chrono::seconds{10};
inline constexpr Duration kRulesRetry = std::chrono::seconds{2};
// Sandboxes that are told whom to trust in the background, and the longest pause after failures.
inline constexpr std::size_t kTrustWorkers = 8;
inline constexpr Duration kLastTrustRetry = std::chrono::minutes{5};
// The kernel alone answers: a sandbox that is slow has a queue that is full.
inline constexpr Duration kInsideConnectTimeout = std::chrono::seconds{10};
// Who opened a connection; a sandbox that cannot say it by then does not say it.
inline constexpr Duration kOpenerTimeout = std::chrono::seconds{2};
inline constexpr std::size_t kMaxSnapshotsPerTeam = 2'000;
// Between two looks for snapshots on the node that nobody knows.
inline constexpr std::int64_t kSnapshotSweepMs = 60'000;
inline constexpr std::size_t kMaxSnapshotNameBytes = 256;
inline constexpr std::size_t kMaxSnapshotDescriptionBytes = 4096;
inline constexpr std::size_t kMaxTemplateMounts = 16;
inline constexpr std::size_t kMaxVolumesPerTeam = 1000;
inline constexpr std::size_t kMaxVolumeSnapshotsPerTeam = 2000;
inline constexpr std::uint64_t kDefaultVolumeBytes = 10ULL << 30;
inline constexpr std::uint64_t kMinVolumeBytes = 1ULL << 20;
// Of a change to a volume: what was written to it goes to disk, and old kernels copy.
inline constexpr Duration kVolumeTimeout = std::chrono::minutes{10};
// Cells that serve the files of volumes: how many, and how long one waits for the next request.
inline constexpr std::size_t kMaxFileCells = 64;
inline constexpr std::size_t kMaxFileCellsPerTeam = kMaxFileCells / 4;
inline constexpr Duration kFileCellIdle = std::chrono::seconds{30};
inline constexpr Duration kFileCellPing = std::chrono::seconds{5};
inline constexpr std::uint64_t kFileCellMemoryBytes = 256ULL << 20;
inline constexpr std::uint32_t kFileCellProcesses = 256;
inline constexpr std::uint64_t kFileCellDiskBytes = 16ULL << 20;
// How often the host is asked whether memory is short.
inline constexpr Duration kPressureInterval = std::chrono::seconds{5};
// A pause waits for everything the sandbox wrote to reach the disk; memory goes there and comes
// back.
inline constexpr Duration kPauseTimeout = std::chrono::minutes{5};
// Sandboxes that are started again side by side, at a start or when the node comes back.
inline constexpr std::size_t kMaxRepairsAtOnce = 4;
inline constexpr std::size_t kMaxOrphansAtOnce = 8;
// Memory that goes to disk without being asked to: it must not take all of the node's slow calls.
inline constexpr std::size_t kMaxBackgroundDumps = 2;
inline constexpr Duration kReadyWait =
    std::chrono::seconds{5};  // of a claim, for a node that restarts
inline constexpr Duration kNodeFirstRetry = std::chrono::milliseconds{50};
inline constexpr Duration kNodeLastRetry = std::chrono::seconds{2};

// --- prepared cells ---------------------------------------------------------------------------
// A claim counts as recent for about a second; the most that were recent is remembered for minutes.
inline constexpr Duration kDemandRecent = std::chrono::milliseconds{700};  // half-life
inline constexpr Duration kDemandMemory = std::chrono::seconds{60};        // half-life
// Claims of this time find a cell, besides those that come while one is made.
inline constexpr Duration kDemandMargin = std::chrono::seconds{1};
inline constexpr double kForgottenDemand = 0.1;  // claims a second
inline constexpr std::size_t kMaxPreparedKinds = 64;
// Of templates that say nothing about their pool; and what `default` has before anybody came.
inline constexpr std::size_t kDefaultMaxIdle = 100;
inline constexpr std::size_t kDefaultMinIdle = 4;
inline constexpr std::size_t kMaxIdle = 1000;  // that a template may ask for
// Memory of one that waits, unshared, with what the kernel has for it: an estimate on the safe
// side.
inline constexpr std::uint64_t kPreparedCellBytes = 1ULL << 20;
// None is prepared while claims make more cells than this themselves.
inline constexpr std::size_t kFewClaimsMaking = 3;
inline constexpr std::size_t kMaxPreparedAtOnce = 4;        // that are made
inline constexpr std::size_t kPreparedDestroyedAtOnce = 8;  // at the end
inline constexpr Duration kPreparedFirstPause = std::chrono::milliseconds{200};
inline constexpr Duration kPreparedLastPause = std::chrono::seconds{60};
inline constexpr Duration kPreparedShortestPause = std::chrono::milliseconds{10};
inline constexpr Duration kPreparedMemoryLook = std::chrono::seconds{1};

// --- sandboxes --------------------------------------------------------------------------------
inline constexpr std::size_t kMaxRestarts = 3;  // within kRestartWindow, then the sandbox failed
inline constexpr std::int64_t kRestartWindowMs = 60'000;
inline constexpr std::int64_t kMaxTtlSeconds = 10LL * 366 * 24 * 3600;
inline constexpr std::size_t kMaxEnvVariables = 1024;
inline constexpr std::size_t kMaxEnvBytes = std::size_t{64} * 1024;
inline constexpr std::size_t kMaxSandboxIdBytes = 55;
// The wall clock may be set while we wait, so no wait for an expiry is longer than this.
inline constexpr std::int64_t kMaxExpiryWaitMs = 30'000;
// Between the clock of the host and the time that passed: more is a clock that was set.
inline constexpr std::int64_t kClockJumpMs = 5000;
inline constexpr std::int64_t kExpiryRetryMs = 1000;
inline constexpr std::int64_t kSweepRetryMs = 1000;
inline constexpr std::size_t kMaxNameBytes = 63;
inline constexpr std::size_t kMaxLabels = 64;
inline constexpr std::size_t kMaxLabelKeyBytes = 128;
inline constexpr std::size_t kMaxLabelValueBytes = 1024;
inline constexpr std::size_t kMaxClaimCount = 100;  // sandboxes of one claim
inline constexpr std::size_t kMaxClaimKeyBytes = 255;
inline constexpr std::int64_t kSampleIntervalMs = 5'000;
inline constexpr std::size_t kMaxSamples = 720;  // of usage, per sandbox: an hour
// Sandboxes that are asked in one interval: however many there are, sampling costs no more.
inline constexpr std::size_t kMaxSampledAtOnce = 200;

// --- network audit ----------------------------------------------------------------------------
inline constexpr std::size_t kMaxQueuedFlows = 20'000;  // that wait to be written
inline constexpr std::size_t kMaxQueuedFlowsPerSandbox = kMaxQueuedFlows / 8;
inline constexpr std::size_t kMaxFlowBatch = 2'000;  // of one transaction
inline constexpr Duration kFlowBatchTime = std::chrono::milliseconds{20};
inline constexpr Duration kFlowRetry = std::chrono::seconds{1};  // after a write that failed
inline constexpr Duration kFlowTrimInterval = std::chrono::hours{1};
inline constexpr std::size_t kMaxFlowFollowers = 256;
inline constexpr std::size_t kMaxFlowFollowersPerTeam = 32;
inline constexpr std::size_t kFlowFollowPage = 200;
inline constexpr std::size_t kMaxApprovalsPerSandbox = 32;  // that wait for an answer
inline constexpr std::size_t kMaxApprovals = 1'000;         // of all sandboxes
inline constexpr std::size_t kMaxRememberedAnswers = 1'000;
inline constexpr std::size_t kMaxApprovalNews = 4'096;  // kept for those who follow
inline constexpr std::size_t kMaxApprovalTextBytes = 2'048;
inline constexpr Duration kApprovalTimeout = std::chrono::seconds{120};

// --- contexts ---------------------------------------------------------------------------------
inline constexpr std::size_t kMaxCaptureBytes = 16U << 20;        // per stream of one answer
inline constexpr std::size_t kMaxTotalCaptureBytes = 512U << 20;  // of all answers being collected
inline constexpr std::size_t kMaxBackgroundInputs = 256;
inline constexpr std::size_t kInputPieceBytes = std::size_t{64} * 1024;
// What is remembered for a restart of contexts, all together; the rest restarts without it.
inline constexpr std::size_t kMaxRememberedBytes = 32U << 20;

// --- watches that are polled -----------------------------------------------------------------
inline constexpr std::size_t kMaxPolledWatches = 4096;
inline constexpr std::size_t kMaxPolledWatchesPerSandbox = 48;  // a guest has room for some more
inline constexpr std::size_t kMaxPolledChanges = 10'000;        // of one, until they are asked for
inline constexpr std::size_t kMaxPolledBytes = 1U << 20;        // their paths
inline constexpr Duration kMaxPollPause = std::chrono::hours{1};

// --- interpreters -----------------------------------------------------------------------------
inline constexpr std::size_t kMaxChannelLineBytes = 16U << 20;
inline constexpr std::size_t kMaxResultBytes = 64U << 20;  // rich results of one execution
inline constexpr std::size_t kMaxWaitingExecutions = 64;   // per context
inline constexpr Duration kInterpreterStartTimeout = std::chrono::seconds{30};
// Between the interrupt at a deadline and the answer, when the code does not stop.
inline constexpr Duration kInterruptGrace = std::chrono::seconds{3};
inline constexpr std::size_t kMaxCodeBytes = 1U << 20;
// Code that goes to its interpreter before we know that there is one. Small enough to be taken
// without anybody reading.
inline constexpr std::size_t kMaxEagerLineBytes = std::size_t{24} * 1024;
inline constexpr std::size_t kMaxUnfinishedExecutions = 10'000;
// Interpreters that wait for sandboxes: how many kinds, and the memory of one.
inline constexpr std::size_t kMaxPreloaded = 64;
inline constexpr std::uint64_t kMaxPreloadedBytes = 512ULL << 20;  // of one
inline constexpr std::uint64_t kMaxPreloadedTotalBytes = 1ULL << 30;
// Modules that a template names to be imported.
inline constexpr std::size_t kMaxPreloadModules = 64;
inline constexpr std::size_t kMaxPreloadModuleBytes = 128;
inline constexpr Duration kPreloadTimeout = std::chrono::seconds{120};
// Copies of interpreters, for the forks that take them along.
inline constexpr std::uint64_t kMaxCopyBytes = 16ULL << 30;
inline constexpr std::uint64_t kCopyMarginBytes = 16ULL << 20;  // left to the sandbox meanwhile
inline constexpr std::size_t kMaxCarriedInterpreters = 16;
inline constexpr Duration kIdleInterpreterWait = std::chrono::seconds{5};  // of one fork
inline constexpr Duration kShortInterpreterWait = std::chrono::milliseconds{20};
inline constexpr Duration kCopyTimeout = std::chrono::seconds{20};
inline constexpr Duration kAllCopiesTimeout = std::chrono::seconds{30};  // of one fork
inline constexpr std::size_t kMaxRevivalsAtOnce = 16;                    // of one fork
inline constexpr std::size_t kMaxShownBytes = 2000;  // of what a REPL printed instead of starting
inline constexpr std::size_t kMaxReplTokenBytes = 256;
inline constexpr std::uint64_t kMaxReplQuietMs = 30'000;  // of silence that means "ready"
// Of a REPL on a terminal, when nobody says otherwise.
inline constexpr std::uint32_t kReplRows = 100;
inline constexpr std::uint32_t kReplColumns = 500;

// --- templates --------------------------------------------------------------------------------
inline constexpr std::size_t kMaxBuildLogBytes = 8U << 20;  // kept per build
inline constexpr std::size_t kMaxBuildsAtOnce = 4;
inline constexpr std::size_t kMaxDiffsAtOnce = 8;  // comparisons and exports
inline constexpr std::size_t kMaxDiffsPerTeam = kMaxDiffsAtOnce / 4;
inline constexpr std::size_t kMaxTemplates = 1000;
inline constexpr std::size_t kMaxFamiliesPerTeam = 200;  // templates with builds
inline constexpr std::size_t kMaxTagsPerTemplate = 100;
inline constexpr std::size_t kMaxWaitingBuilds = 10;  // of one template
inline constexpr std::size_t kMaxCachedLayers = 400;  // made by builds, with those of templates
inline constexpr Duration kTreeFinishTimeout = std::chrono::minutes{10};
inline constexpr Duration kCommitTimeout = std::chrono::minutes{10};  // a large layer is synced
inline constexpr std::uint64_t kMaxRunStepMs = 3600ULL * 1000;
inline constexpr Duration kFetchTimeout = std::chrono::hours{1};
inline constexpr std::uint64_t kMaxUploadBytes = 16ULL << 30;  // a context or an image archive
inline constexpr std::uint64_t kMaxImageBytes = 64ULL << 30;   // unpacked
inline constexpr std::size_t kMaxBuildArguments = 256;
// Pages of one listing, or of one deletion, in a bucket: a million objects.
inline constexpr std::size_t kMaxBucketPages = 1000;
// Files that only pass through, all together; and what they leave of the file system they lie on.
inline constexpr std::uint64_t kMaxScratchBytes = 4 * kMaxUploadBytes;
inline constexpr std::uint64_t kMaxTeamScratchBytes = kMaxScratchBytes / 4;
inline constexpr std::uint64_t kMinScratchReserveBytes = 256ULL << 20;
inline constexpr std::uint64_t kMaxScratchReserveBytes = 4ULL << 30;
inline constexpr Duration kScratchLookInterval = std::chrono::seconds{1};

}  // namespace atl::control
