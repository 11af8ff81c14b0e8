#include "base/clock.h"

#include "base/strings.h"

namespace atl {

std::string format_unix_millis(UnixMillis time) {
  std::int64_t seconds = time / 1000;
  std::int64_t milliseconds = time % 1000;
  if (milliseconds < 0) {
    milliseconds += 1000;
    --seconds;
  }
  // "…:51.123456789Z" -> "…:51.123Z"
  std::string text = format_rfc3339(seconds, static_cast<long>(milliseconds * 1000000));
  return text.erase(text.size() - 7, 6);
}

}  // namespace atl
