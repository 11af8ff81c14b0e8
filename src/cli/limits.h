// Every limit of the command line, with its unit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace atl::cli {

inline constexpr std::size_t kMaxAnswerBytes = 64UL << 20;     // one JSON answer of the API
inline constexpr std::size_t kMaxStreamLineBytes = 4UL << 20;  // one line of an event stream
inline constexpr std::size_t kMaxCapturedBytes = 16UL << 20;   // per stream, run/exec -o json
inline constexpr std::size_t kCopyBufferBytes = 256UL << 10;
inline constexpr std::size_t kInputChunkBytes = 48UL << 10;  // stdin per request, before base64
inline constexpr std::size_t kMaxKeyFileBytes = 4096;
inline constexpr std::size_t kMaxTreeDepth = 256;          // of a directory being copied
inline constexpr std::size_t kMaxTreeEntries = 4'000'000;  // a sandbox may invent names for ever
inline constexpr std::size_t kMaxListedSandboxes = 100'000;
inline constexpr std::size_t kListPageSize = 200;              // what the API allows
inline constexpr std::size_t kMaxArgumentBytes = 128UL << 10;  // of one batch of link/chmod work
inline constexpr int kMaxReconnects = 5;                       // of one output stream

inline constexpr std::chrono::seconds kQuietPeriod{1};  // before progress is worth showing
inline constexpr std::chrono::milliseconds kProgressInterval{100};
inline constexpr std::chrono::seconds kCallDeadline{60};     // an ordinary call
inline constexpr std::chrono::minutes kCreateDeadline{10};   // a cold create
inline constexpr std::chrono::minutes kStateDeadline{10};    // a pause, a snapshot, a hundred forks
inline constexpr std::chrono::seconds kCleanupDeadline{30};  // deleting on the way out
inline constexpr std::chrono::seconds kDoctorDeadline{3};
inline constexpr std::chrono::minutes kSearchDeadline{2};      // the server has one of its own
inline constexpr std::chrono::seconds kCompletionDeadline{2};  // a person waits for the key
inline constexpr std::chrono::minutes kReconnectPatience{2};   // of a shell without a server

// The exit status of `run` and `exec` when we failed, not the command; as Docker does.
inline constexpr int kOwnFailureStatus = 125;
inline constexpr int kNotExecutableStatus = 126;
inline constexpr int kCommandNotFoundStatus = 127;
inline constexpr int kTimeoutStatus = 124;
inline constexpr int kInterruptedStatus = 130;

}  // namespace atl::cli
