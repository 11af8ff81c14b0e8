#include "cli/progress.h"

#include "base/strings.h"
#include "cli/limits.h"
#include "cli/table.h"

namespace atl::cli {
namespace {
constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr std::size_t kBarWidth = 24;
}  // namespace

Progress::Progress(TaskContext& parent, const Console& console, bool quiet, Describe describe)
    : console_(console), describe_(std::move(describe)), scope_(parent) {
  if (console.error_is_terminal() && !quiet) {
    scope_.spawn("progress", draw());
  }
}

Task<> Progress::draw() {
  static constexpr std::string_view kFrames[] = {"|", "/", "-", "\\"};
  CO_TRY_DO(co_await sleep_for(kQuietPeriod));
  for (std::size_t frame = 0;; ++frame) {
    drawn_ = true;
    console_.complain(concat(kEraseLine, kFrames[frame % std::size(kFrames)], " ", describe_()));
    CO_TRY_DO(co_await sleep_for(kProgressInterval));
  }
}

Task<> Progress::finish() {
  auto joined = co_await scope_.cancel_and_join();
  if (std::exchange(drawn_, false)) {
    console_.complain(kEraseLine);
  }
  co_return std::move(joined);
}

std::string describe_transfer(unsigned long long done, unsigned long long total,
                              double elapsed_seconds) {
  std::string out;
  if (total > 0) {
    const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const auto filled = static_cast<std::size_t>(part * kBarWidth);
    out = concat("[", std::string(filled, '#'), std::string(kBarWidth - filled, '-'), "] ",
                 static_cast<int>(part * 100), "%  ", format_bytes(done), " of ",
                 format_bytes(total));
  } else {
    out = format_bytes(done);
  }
  if (elapsed_seconds > 0) {
    const auto rate = static_cast<unsigned long long>(static_cast<double>(done) / elapsed_seconds);
    out += concat("  ", format_bytes(rate), "/s");
  }
  return out;
}

}  // namespace atl::cli
