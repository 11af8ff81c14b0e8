#include "fuzz.h"

#include <algorithm>

namespace atl::fuzz {

// One line per file in targets/, written by CMake.
#define FUZZ_TARGET(name)      \
  void name(std::string_view); \
  Seeds name##_seeds();
#include "fuzz_targets.inc"
#undef FUZZ_TARGET

namespace {
constexpr Target kTargets[] = {
#define FUZZ_TARGET(name) {#name, name, name##_seeds},
#include "fuzz_targets.inc"
#undef FUZZ_TARGET
};
}  // namespace

std::span<const Target> all_targets() {
  return kTargets;
}

const Target* find_target(std::string_view name) {
  const auto* found = std::ranges::find(kTargets, name, &Target::name);
  return found == std::end(kTargets) ? nullptr : found;
}

std::vector<std::string_view> pieces(std::string_view input, Cut cut) {
  std::vector<std::string_view> parts;
  std::size_t step = cut == Cut::kWhole ? input.size() : 1;
  while (!input.empty()) {
    if (cut == Cut::kUneven) {
      step = 1 + static_cast<unsigned char>(input.front()) % 13;
    }
    parts.push_back(input.substr(0, step));
    input.remove_prefix(parts.back().size());
  }
  return parts;
}

std::uint8_t Input::number() {
  const auto byte = take(1);
  return byte.empty() ? 0 : static_cast<std::uint8_t>(byte.front());
}

std::string_view Input::take(std::size_t size) {
  const auto taken = bytes_.substr(0, size);
  bytes_.remove_prefix(taken.size());
  return taken;
}

std::string_view Input::until(char separator) {
  const auto taken = take(bytes_.find(separator));
  take(1);
  return taken;
}

}  // namespace atl::fuzz
