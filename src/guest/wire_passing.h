// Asking for the descriptor of a file instead of its bytes.
//
// A large file need not be read by us, copied into a socket and out of it again: whoever asks can
// have the open descriptor, and the kernel sends its pages to the client as they are. Who may open
// it is decided as ever, by the user who asks, inside the sandbox. The guest answers kFile with the
// descriptor and nothing else, and stays at the connection: when it goes, so must the reader,
// because the sandbox is being taken down.
//
// The wish is the top bit of ReadFileRequest::length. Guests of older builds take that for a file
// that is longer than any, and send its bytes.
#pragma once

#include <cstdint>

namespace atl::guest {

inline constexpr std::uint64_t kPassingBit = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kPassAll = UINT64_MAX - 1;
// Measured: from here on the descriptor is quicker than the bytes.
inline constexpr std::uint64_t kLeastPassedBytes = std::uint64_t{64} * 1024;

// UINT64_MAX means all that there is, in both.
constexpr std::uint64_t with_passing(std::uint64_t length) {
  return length >= (kPassAll & ~kPassingBit) ? kPassAll : length | kPassingBit;
}
constexpr bool wants_passing(std::uint64_t length) {
  return length != UINT64_MAX && (length & kPassingBit) != 0;
}
constexpr std::uint64_t without_passing(std::uint64_t length) {
  return !wants_passing(length) ? length : length == kPassAll ? UINT64_MAX : length & ~kPassingBit;
}

}  // namespace atl::guest
