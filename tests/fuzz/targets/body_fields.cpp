// The strict readers of request bodies, and the spec of a template.
#include "control/template_spec.h"
#include "fuzz.h"
#include "service/native/fields.h"

namespace atl::fuzz {
namespace {

using service::native::Fields;

void read(const Fields& fields, int depth) {
  (void)fields.string("text");
  (void)fields.boolean("flag");
  (void)fields.strings("list");
  (void)fields.string_map("map");
  if (const auto number = fields.integer("number", -5, 1000); number && *number) {
    CHECK(**number >= -5 && **number <= 1000);
  }
  const auto required = fields.required_string("text");
  CHECK(!required || fields.has("text"));
  (void)fields.refuse_missing_features({"map", "list"});
  const auto inner = fields.object("inner", {"text", "flag", "list", "map", "number", "inner"});
  if (inner && depth < 4) {
    read(*inner, depth + 1);
  }
}

}  // namespace

void body_fields(std::string_view input) {
  const auto json = Json::parse(input);
  if (json) {
    const auto fields = Fields::of(*json, "", {"text", "flag", "list", "map", "number", "inner"});
    CHECK(fields || !fields.error().message.empty());
    if (fields) {
      read(*fields, 0);
    }
    if (const auto spec = control::parse_template_spec(*json)) {
      CHECK(json->as_object() != nullptr);
    }
  }
  (void)service::native::query_integer(input, "limit", 1, 200);
  (void)service::native::query_boolean(input, "flag");
}

Seeds body_fields_seeds() {
  return {R"({"text":"a","flag":true,"list":["x"],"map":{"k":"v"},"number":7,"inner":{"text":1}})",
          R"({"inner":{"inner":{"inner":{"number":1e3}}}})",
          R"({"text":null,"number":9223372036854775807,"list":[1],"map":{"a":1}})",
          R"({"unknown":1})",
          "[]",
          "null",
          R"({"mainContainer":{"image":"a","env":[{"name":"A","value":"b"}],
              "resources":{"memory":"1Gi","cpu":"500m","ephemeralStorage":"2Gi"},
              "securityClass":"privileged"},"pool":{"minIdle":1,"maxIdle":2},
              "envVars":{"X":"y"},"tags":["t"],"description":"d"})",
          R"({"mainContainer":[],"pool":{"minIdle":-1},"envVars":[]})",
          "limit=5&flag=true",
          "limit=-1&flag=yes&limit=%20"};
}

}  // namespace atl::fuzz
