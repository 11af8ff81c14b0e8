// Every bound of this room, with its unit. All of it guards against input that somebody else wrote.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atl::oci {

inline constexpr std::size_t kMaxDockerfileBytes = 1U << 20;
inline constexpr std::size_t kMaxInstructions = 1000;
inline constexpr std::size_t kMaxStages = 64;
inline constexpr std::size_t kMaxExpandedBytes =
    std::size_t{256} * 1024;  // of one word after substitution
inline constexpr std::size_t kMaxIgnorePatterns = 10'000;

inline constexpr std::size_t kMaxPathBytes = 4000;
inline constexpr std::size_t kMaxPathDepth = 250;
inline constexpr std::size_t kMaxAttributes = 256;  // extended, of one entry
inline constexpr std::size_t kMaxAttributeBytes = std::size_t{96} * 1024;
inline constexpr std::size_t kMaxAttributeNameBytes = 255;
inline constexpr std::uint64_t kMaxEntries = 1'000'000;        // of an archive, and of an image
inline constexpr std::size_t kMaxNameBytesTotal = 256U << 20;  // of all paths of an image together
inline constexpr std::size_t kMaxImageLayers = 500;
inline constexpr std::size_t kMaxMetadataBytes = 4U << 20;  // index, manifest, configuration
inline constexpr std::size_t kMaxConfigStrings = 4096;
inline constexpr std::uint64_t kMaxUnpackedBytes = 64ULL << 30;  // of an image, when none is given

inline constexpr std::size_t kToolLineBytes = 4096;
inline constexpr std::size_t kToolTailLines = 5;

}  // namespace atl::oci
