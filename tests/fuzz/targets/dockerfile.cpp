// Dockerfiles: parsed, and every word of every instruction expanded.
#include "oci/dockerfile.h"

#include "base/strings.h"
#include "fuzz.h"
#include "oci/limits.h"
#include "oci/words.h"

namespace atl::fuzz {
namespace {

std::optional<std::string> lookup(std::string_view name) {
  if (name == "X") {
    return "value";
  }
  return name == "EMPTY" ? std::optional<std::string>{""} : std::nullopt;
}

void check(const oci::Instruction& instruction, char escape) {
  CHECK(instruction.line >= 1 && !instruction.keyword.empty());
  (void)instruction.display();
  for (const auto& word : instruction.words) {
    if (const auto expanded = oci::expand_word(word, lookup, escape)) {
      CHECK(expanded->size() <= oci::kMaxExpandedBytes);
    }
  }
}

}  // namespace

void dockerfile(std::string_view input) {
  const auto file = oci::parse_dockerfile(input);
  if (!file) {
    CHECK(!file.error().message.empty() && is_utf8(file.error().message));
    return;
  }
  CHECK(!file->stages.empty() && file->stages.size() <= oci::kMaxStages);
  for (const auto& argument : file->global_arguments) {
    check(argument, file->escape);
  }
  for (const auto& stage : file->stages) {
    CHECK(!stage.base.empty());
    for (const auto& instruction : stage.instructions) {
      check(instruction, file->escape);
    }
  }
}

Seeds dockerfile_seeds() {
  return {"FROM scratch\n"};
}

}  // namespace atl::fuzz
