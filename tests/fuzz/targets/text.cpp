// UTF-8, base64 and escapes: what everything else stands on.
#include "base/json.h"
#include "base/strings.h"
#include "fuzz.h"
#include "service/native/utf8_joiner.h"

namespace atl::fuzz {

void text(std::string_view input) {
  const auto valid = to_valid_utf8(input);
  CHECK(is_utf8(valid));
  CHECK(is_utf8(input) == (valid == input));
  // Joined pieces are the text as it would be in one.
  for (const auto cut : kCuts) {
    service::native::Utf8Joiner joiner;
    std::string joined;
    for (const auto piece : pieces(input, cut)) {
      const auto part = joiner.add(piece);
      CHECK(is_utf8(part));
      joined += part;
    }
    CHECK(!is_utf8(input) || joined == input);
  }
  CHECK(base64_decode(base64_encode(input)) == input);
  if (const auto bytes = base64_decode(input)) {
    CHECK(base64_decode(base64_encode(*bytes)) == *bytes);
  }
  std::string quoted;
  append_json_string(quoted, input);
  const auto json = Json::parse(quoted);
  CHECK(json && *json->as_string() == valid);
  std::string printable;
  append_printable(printable, input);
  for (const char c : printable) {
    CHECK(static_cast<unsigned char>(c) >= ' ' && c != 0x7f);
  }
}

Seeds text_seeds() {
  return {"plain",
          "zw\xc3\xb6lf \xe2\x82\xac \xf0\x9f\x99\x82",
          "\xc3",
          "\xe2\x82",
          "\xf0\x9f\x99",
          "\xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xff",
          "aGVsbG8=",
          "aGVsbG8",
          "a===",
          "\x1b[2J\r\n\t\x7f",
          std::string("\0\"\\", 3)};
}

}  // namespace atl::fuzz
