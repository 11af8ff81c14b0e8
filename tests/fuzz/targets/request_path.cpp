// The path that rules are asked about: one form, which stays what it is.
#include "egress/request_path.h"

#include "fuzz.h"

namespace atl::fuzz {

void request_path(std::string_view input) {
  const auto path = egress::canonical_path(input);
  if (!path) {
    CHECK(path.error().code == Code::kInvalidArgument);
    return;
  }
  const auto again = egress::canonical_path(*path);
  CHECK(again && *again == *path);
  CHECK(path->starts_with('/') || *path == "*");
  CHECK(!path->starts_with("//"));
  for (const std::string_view odd :
       {"/../", "/./", "\\", "%2F", "%2f", "%5C", "%00", "%2E", "%2e"}) {
    CHECK(path->find(odd) == std::string::npos);
  }
  CHECK(!path->ends_with("/..") && !path->ends_with("/."));
}

Seeds request_path_seeds() {
  return {"/",         "/a/b;c=d", "/%61%2D%7E", "/a%20b", "/a/../b",
          "/%2e%2e/b", "//host/x", "/a%2Fb",     "*"};
}

}  // namespace atl::fuzz
