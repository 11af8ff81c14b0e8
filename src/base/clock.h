// Wall-clock time behind an interface, so that expiry can be tested without waiting.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl {

// Milliseconds since the epoch, UTC: how times are stored and compared.
using UnixMillis = std::int64_t;

class WallClock {
 public:
  virtual ~WallClock() = default;
  virtual UnixMillis now() const = 0;
};

class SystemWallClock final : public WallClock {
 public:
  UnixMillis now() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

class FakeWallClock final : public WallClock {
 public:
  explicit FakeWallClock(UnixMillis start) : now_(start) {}
  UnixMillis now() const override { return now_; }
  void advance_ms(std::int64_t milliseconds) { now_ += milliseconds; }

 private:
  UnixMillis now_;
};

std::string format_unix_millis(UnixMillis time);  // RFC 3339 with milliseconds, UTC
// "2026-01-31T12:00:00.5+01:00"; nothing for what is not RFC 3339 to the letter.
std::optional<UnixMillis> parse_rfc3339(std::string_view text);

}  // namespace atl
