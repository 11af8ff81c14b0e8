// Values in place of placeholders: the same for every cut, and nothing but whole matches.
#include "egress/placeholders.h"

#include "fuzz.h"

namespace atl::fuzz {
namespace {

constexpr std::string_view kFirst = "atollph_first_0123";
constexpr std::string_view kSecond = "atollph_first_01234567";  // begins like the first
constexpr std::string_view kValue = "s3cret\"&\\ value";

std::vector<egress::Replacement> replacements() {
  return {{std::string{kFirst}, kValue}, {std::string{kSecond}, "other"}};
}

}  // namespace

void placeholders(std::string_view bytes) {
  Input input{bytes};
  const auto escape = static_cast<egress::ValueEscape>(input.number() % 3);
  const auto text = input.rest();
  const auto whole = same_for_every_cut(text, [&](const std::vector<std::string_view>& cut) {
    egress::PlaceholderRewriter rewriter{replacements(), escape};
    std::string out;
    for (const auto piece : cut) {
      out += rewriter.feed(piece);
    }
    return out + rewriter.finish();
  });
  CHECK(whole == egress::rewrite_text(text, replacements(), escape));
  // None of the values contains a placeholder: after replacing, none is left but by joining.
  if (text.find(kFirst) == std::string_view::npos) {
    CHECK(whole == text);
  } else {
    CHECK(egress::find_placeholder(text, {std::string{kFirst}}));
  }
  const auto header = egress::rewrite_header("authorization", text, replacements());
  CHECK(!header || header->find_first_of(std::string_view{"\r\n\0", 3}) == std::string::npos ||
        text.find_first_of(std::string_view{"\r\n\0", 3}) != std::string_view::npos);
}

Seeds placeholders_seeds() {
  using namespace std::string_literals;
  return {"\0key="s + std::string{kFirst} + "&x=" + std::string{kSecond},
          "\1{\"a\":\""s + std::string{kFirst} + "\"}",
          "\2"s + std::string{kFirst.substr(0, 9)} + std::string{kFirst} +
              std::string{kFirst.substr(9)},
          "\0Basic dXNlcjphdG9sbHBoX2ZpcnN0XzAxMjM="s,
          "\0atollph_fi"s,
          "\0%61tollph_first_0123"s};
}

}  // namespace atl::fuzz
