// Replays one target without libFuzzer: fuzz_replay NAME [CORPUS-DIRECTORY]
//
// Its seeds, the files of the directory, and of each a few mutations that are the same in every
// run: cut short, one byte changed, two inputs joined. A property that does not hold aborts.
#include <cstdio>
#include <filesystem>
#include <random>

#include "base/fd.h"
#include "fuzz.h"

namespace {

constexpr std::size_t kMaxInputBytes = 1U << 20;
constexpr int kMutations = 40;

std::vector<std::string> inputs_of(const atl::fuzz::Target& target, const char* directory) {
  auto inputs = target.seeds();
  inputs.emplace_back();
  if (directory != nullptr && std::filesystem::is_directory(directory)) {
    for (const auto& entry : std::filesystem::directory_iterator{directory}) {
      const auto text = atl::read_file(entry.path().string(), kMaxInputBytes);
      CHECK(text);
      inputs.push_back(*text);
    }
  }
  return inputs;
}

std::string mutated(const std::vector<std::string>& inputs, const std::string& input,
                    std::minstd_rand& random) {
  std::string result = input;
  switch (random() % 3) {
    case 0:
      result.resize(random() % result.size());
      break;
    case 1:
      result[random() % result.size()] = static_cast<char>(random());
      break;
    default:
      result.resize(random() % result.size());
      result += inputs[random() % inputs.size()];
  }
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  const auto* target = count >= 2 ? atl::fuzz::find_target(arguments[1]) : nullptr;
  if (target == nullptr) {
    std::fprintf(stderr, "usage: fuzz_replay TARGET [CORPUS-DIRECTORY]\n");
    return 2;
  }
  const auto inputs = inputs_of(*target, count >= 3 ? arguments[2] : nullptr);
  std::minstd_rand random{1};
  std::size_t runs = 0;
  for (const auto& input : inputs) {
    target->run(input);
    ++runs;
    for (int i = 0; i < kMutations && !input.empty(); ++i, ++runs) {
      target->run(mutated(inputs, input, random));
    }
  }
  std::printf("%s: %zu inputs, %zu runs\n", arguments[1], inputs.size(), runs);
  return 0;
}
