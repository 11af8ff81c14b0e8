// The small language inside Dockerfile lines, and patterns of .dockerignore and COPY.
#include "fuzz.h"
#include "oci/ignore.h"
#include "oci/limits.h"
#include "oci/words.h"

namespace atl::fuzz {

void docker_words(std::string_view bytes) {
  Input input{bytes};
  const char escape = input.number() % 2 == 0 ? '\\' : '`';
  const auto first = input.until('\0');
  const auto lookup = [first](std::string_view name) -> std::optional<std::string> {
    return name.size() > 1 ? std::nullopt : std::optional<std::string>{first};
  };
  if (const auto words = oci::split_words(first, escape)) {
    for (const auto& word : *words) {
      if (const auto expanded = oci::expand_word(word, lookup, escape)) {
        CHECK(expanded->size() <= oci::kMaxExpandedBytes);
      }
    }
  }
  const auto path = input.rest();
  (void)oci::matches_path(first, path);
  (void)oci::has_wildcard(first);
  if (const auto rules = oci::IgnoreRules::parse(first)) {
    (void)rules->ignores(path);
  }
}

Seeds docker_words_seeds() {
  const auto seed = [](std::string_view text, std::string_view path) {
    return std::string(1, '\0') + std::string{text} + '\0' + std::string{path};
  };
  return {seed("a \"b c\" 'd $X' e\\ f", "a"),
          seed("$X ${X} ${X:-d} ${X-d} ${X:+v} ${X+v} ${Y:?no} ${Y?no}", ""),
          seed("${X:-${Y:-${Z:-deep}}} ${ ${}", ""),
          seed("# comment\n*.o\n!keep.o\n**/deep/**\n[a-z]?\n\\#\n/abs", "x/deep/y.o"),
          seed("**/**/**/**/**/a", "b/b/b/b/b/b/b/b/b"),
          seed("*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaa"),
          seed("[", "["),
          seed("[]-a] [^x] [!x]", "]")};
}

}  // namespace atl::fuzz
