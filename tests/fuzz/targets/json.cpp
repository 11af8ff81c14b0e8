// JSON there and back: what was accepted, written and read again, is written the same. (A number
// such as 1e3 is an integer from then on.)
#include "base/json.h"

#include "fuzz.h"

namespace atl::fuzz {

void json(std::string_view input) {
  const auto value = Json::parse(input);
  if (!value) {
    CHECK(!value.error().message.empty());
    return;
  }
  const auto text = value->dump();
  const auto again = Json::parse(text);
  CHECK(again && again->dump() == text);
  const auto pretty = Json::parse(value->dump_pretty());
  CHECK(pretty && *pretty == *again);
}

Seeds json_seeds() {
  return {R"({"a":[1,-2,3.5e10,true,false,null,"x"],"b":{"c":{}}})",
          R"(["\u00e4\ud83d\ude42\n\"\\\/\b\f\r\t",""])",
          R"({"a":1,"a":2})",
          R"([9223372036854775807,-9223372036854775808,9223372036854775808,1e400,-0,0.1])",
          R"("\ud800")",
          "[1,]",
          "\"\xff\"",
          std::string(70, '['),
          std::string(60, '[') + std::string(60, ']'),
          "01",
          "nul",
          " {} x",
          "\"\x01\""};
}

}  // namespace atl::fuzz
