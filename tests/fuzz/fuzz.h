// Fuzz targets: what one is, and what they share.
//
// targets/<name>.cpp defines void <name>(std::string_view input), which feeds the input to a codec
// and CHECKs what must hold for any bytes, and Seeds <name>_seeds(): inputs that mean something,
// made by our own encoders and tables so that they never go stale. Seeds that are text, and every
// input that once broke something, are files in corpus/<name>/. libFuzzer runs a target in the
// fuzz build (libfuzzer.cpp); in every other build its corpus is replayed as a test (replay.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::fuzz {

using Seeds = std::vector<std::string>;

struct Target {
  std::string_view name;
  void (*run)(std::string_view input);
  Seeds (*seeds)();
};
std::span<const Target> all_targets();
const Target* find_target(std::string_view name);

// Ways to cut an input into pieces: whole, byte by byte, and at places the input decides.
enum class Cut : std::uint8_t { kWhole, kBytes, kUneven };
inline constexpr Cut kCuts[] = {Cut::kWhole, Cut::kBytes, Cut::kUneven};
std::vector<std::string_view> pieces(std::string_view input, Cut cut);

// What `observe(pieces)` says must not depend on how the input was cut.
template <class Observe>
auto same_for_every_cut(std::string_view input, const Observe& observe) {
  auto whole = observe(pieces(input, Cut::kWhole));
  CHECK(observe(pieces(input, Cut::kBytes)) == whole);
  CHECK(observe(pieces(input, Cut::kUneven)) == whole);
  return whole;
}

// Takes an input apart. Never runs out: beyond the end everything is zero or empty.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}
  std::uint8_t number();
  std::string_view take(std::size_t size);
  // Up to a separator, which is dropped.
  std::string_view until(char separator);
  std::string_view rest() { return take(bytes_.size()); }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

}  // namespace atl::fuzz
