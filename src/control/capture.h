// Output held for an answer: the newest bytes, bounded.
//
// Each stream keeps at most its limit, and all captures of the process together keep at most the
// budget; beyond either, the oldest bytes of the stream that grows are dropped and `truncated` says
// so. A CaptureBudget must outlive its captures. Loop thread only.
#pragma once

#include <string>
#include <string_view>

#include "control/limits.h"

namespace atl::control {

struct CaptureBudget {
  std::size_t max_bytes = kMaxTotalCaptureBytes;
  std::size_t used_bytes = 0;
};

class Capture {
 public:
  explicit Capture(CaptureBudget& budget, std::size_t max_bytes = kMaxCaptureBytes)
      : budget_(budget), max_bytes_(max_bytes) {}
  ~Capture() { budget_.used_bytes -= counted_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void append(std::string_view bytes);
  bool truncated() const { return truncated_; }
  void mark_truncated() { truncated_ = true; }
  // The kept bytes. A cut inside a UTF-8 character is moved to its end.
  std::string take();

 private:
  void drop_front(std::size_t bytes);

  CaptureBudget& budget_;
  const std::size_t max_bytes_;
  std::string bytes_;
  std::size_t dropped_ = 0;  // leading bytes of bytes_ that no longer count
  std::size_t counted_ = 0;  // what the budget holds for us
  bool truncated_ = false;
};

}  // namespace atl::control
