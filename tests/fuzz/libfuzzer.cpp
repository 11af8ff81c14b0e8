// One target under libFuzzer: $ATOLL_FUZZ_TARGET names it, its seeds go to $ATOLL_FUZZ_SEEDS.
#include <cstdio>
#include <cstdlib>

#include "base/fd.h"
#include "base/strings.h"
#include "fuzz.h"

namespace {
const atl::fuzz::Target* target = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*arguments*/) {
  const char* name = std::getenv("ATOLL_FUZZ_TARGET");
  target = atl::fuzz::find_target(name == nullptr ? "" : name);
  if (target == nullptr) {
    std::fprintf(stderr, "fuzz: ATOLL_FUZZ_TARGET must be one of:\n");
    for (const auto& each : atl::fuzz::all_targets()) {
      std::fprintf(stderr, "  %s\n", std::string{each.name}.c_str());
    }
    std::exit(2);
  }
  if (const char* directory = std::getenv("ATOLL_FUZZ_SEEDS"); directory != nullptr) {
    int number = 0;
    for (const auto& seed : target->seeds()) {
      const auto path = atl::concat(directory, "/seed-", number++);
      CHECK(atl::replace_file(path, seed, {}));
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
