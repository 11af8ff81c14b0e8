#include "control/capture.h"

#include <algorithm>

namespace atl::control {

void Capture::append(std::string_view bytes) {
  if (bytes.size() > max_bytes_) {
    bytes.remove_prefix(bytes.size() - max_bytes_);
    truncated_ = true;
  }
  const std::size_t kept = bytes_.size() - dropped_;
  if (kept + bytes.size() > max_bytes_) {
    drop_front(kept + bytes.size() - max_bytes_);
  }
  const std::size_t room = budget_.max_bytes - std::min(budget_.used_bytes, budget_.max_bytes);
  if (bytes.size() > room) {
    const std::size_t excess = bytes.size() - room;
    const std::size_t own = std::min(excess, bytes_.size() - dropped_);
    drop_front(own);
    bytes.remove_prefix(excess - own);
    truncated_ = true;
  }
  bytes_ += bytes;
  counted_ += bytes.size();
  budget_.used_bytes += bytes.size();
}

void Capture::drop_front(std::size_t bytes) {
  dropped_ += bytes;
  counted_ -= bytes;
  budget_.used_bytes -= bytes;
  truncated_ = truncated_ || bytes > 0;
  // Moving the rest to the front costs as much as what stays, so it waits until half is waste.
  if (dropped_ > 64 * 1024 && dropped_ > bytes_.size() / 2) {
    bytes_.erase(0, dropped_);
    dropped_ = 0;
  }
}

std::string Capture::take() {
  std::size_t begin = dropped_;
  if (truncated_) {
    const std::size_t last = std::min(begin + 3, bytes_.size());
    while (begin < last && (static_cast<unsigned char>(bytes_[begin]) & 0xc0U) == 0x80U) {
      ++begin;
    }
  }
  bytes_.erase(0, begin);
  dropped_ = 0;
  return std::exchange(bytes_, {});
}

}  // namespace atl::control
