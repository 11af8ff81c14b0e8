// Room for the pieces of a body that passes through: as much as one of them can need. Most bodies
// are small, and a large block costs the heap a mapping and the kernel its pages, every time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "guest/wire.h"

namespace atl::service::native {

class PieceBuffer {
 public:
  // Of a body that is so long, when that is known.
  explicit PieceBuffer(std::optional<std::uint64_t> length)
      : size_(static_cast<std::size_t>(
            std::clamp<std::uint64_t>(length.value_or(kMostBytes), kLeastBytes, kMostBytes))),
        bytes_(new char[size_]) {}

  std::span<char> span() { return {bytes_.get(), size_}; }
  char* data() { return bytes_.get(); }

 private:
  static constexpr std::uint64_t kLeastBytes = 1024;
  static constexpr std::uint64_t kMostBytes = guest::kMaxPayloadBytes;

  const std::size_t size_;
  const std::unique_ptr<char[]> bytes_;  // not cleared
};

}  // namespace atl::service::native
