#include "cli/suggest.h"

namespace atl::cli {
namespace {
constexpr std::size_t kMaxWordBytes = 64;  // longer words are no typing errors
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> cost((a.size() + 1) * width);
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      auto& here = cost[i * width + j];
      if (i == 0 || j == 0) {
        here = i + j;
        continue;
      }
      here = std::min({cost[(i - 1) * width + j] + 1, cost[i * width + j - 1] + 1,
                       cost[(i - 1) * width + j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        here = std::min(here, cost[(i - 2) * width + j - 2] + 1);
      }
    }
  }
  return cost.back();
}

std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& known) {
  if (word.size() > kMaxWordBytes) {
    return std::nullopt;
  }
  std::optional<std::string> best;
  std::size_t best_distance = word.size() <= 3 ? 2 : 3;  // must be below this
  for (const auto& candidate : known) {
    const bool begins = !word.empty() && candidate.starts_with(word);
    const std::size_t distance = begins ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace atl::cli
