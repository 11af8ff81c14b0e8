// Limits of this room, with their units.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace atl::s3 {

// One request and its answer; a body has more time, by its size.
inline constexpr std::chrono::seconds kAttemptTimeout{15};
inline constexpr std::size_t kLeastBytesPerSecond = std::size_t{128} * 1024;
inline constexpr std::chrono::seconds kStallTimeout{30};  // of one read of an object
inline constexpr std::chrono::seconds kAbortTimeout{5};
inline constexpr int kMaxAttempts = 4;
inline constexpr std::chrono::milliseconds kFirstBackoff{100};  // doubled, with jitter
inline constexpr std::chrono::seconds kIdleTime{30};            // of a kept connection
inline constexpr std::size_t kMaxIdleClients = 4;

inline constexpr std::size_t kHashedElsewhereBytes = std::size_t{256} * 1024;
inline constexpr std::size_t kMaxKeyBytes = 1024;
inline constexpr std::size_t kMaxErrorBytes = std::size_t{64} * 1024;
inline constexpr std::size_t kMaxListedKeys = 1000;
inline constexpr std::size_t kMaxDeletedKeys = 1000;  // in one call
// An object is sent in parts that are held whole, so that each can be signed and sent again.
inline constexpr std::size_t kPartBytes = std::size_t{8} << 20;
inline constexpr std::uint64_t kMaxParts = 10'000;
inline constexpr std::uint64_t kMaxObjectBytes = kPartBytes * kMaxParts;
inline constexpr std::uint64_t kMaxCopyBytes = std::uint64_t{5} << 30;  // S3's own, in one call
// Of all uploads under way together; while a part is sent it is in memory twice.
inline constexpr std::size_t kMaxUploadBytes = std::size_t{128} << 20;
inline constexpr std::size_t kMaxTeamUploadBytes = kMaxUploadBytes / 4;
// Lookups of names, which nobody can cut short.
inline constexpr std::size_t kMaxTeamLookups = 2;

inline constexpr std::size_t kMaxAccessKeyBytes = 256;
inline constexpr std::size_t kMaxSecretKeyBytes = 1024;
inline constexpr std::size_t kMaxSessionTokenBytes = 8192;
inline constexpr std::size_t kMaxEndpointBytes = 512;
inline constexpr std::size_t kMaxPolicyEntries = 64;

}  // namespace atl::s3
