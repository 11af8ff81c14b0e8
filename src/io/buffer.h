// A large buffer on loan, for the time bytes take to pass through.
//
// Connections that wait hold none, so a busy one would get and give back 64 KiB with every message;
// the heap's ways with blocks of that size are long. Each thread therefore keeps a few at hand.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace atl::io {

class Buffer {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} * 1024;

  Buffer();
  ~Buffer();
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&& other) noexcept {
    bytes_.swap(other.bytes_);
    return *this;
  }

  char* data() const { return bytes_.get(); }
  std::span<char> span() const { return {bytes_.get(), kBytes}; }

 private:
  std::unique_ptr<char[]> bytes_;  // with what the last borrower left; null when moved from
};

}  // namespace atl::io
