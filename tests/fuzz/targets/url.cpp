// URLs, percent-encoding, queries and routes.
#include "fuzz.h"
#include "http/client.h"
#include "http/router.h"

namespace atl::fuzz {
namespace {

http::Router make_router() {
  http::Router router;
  for (const auto* pattern : {"/", "/api/v1/sandboxes", "/api/v1/sandboxes/{id}",
                              "/api/v1/sandboxes/{id}/files/{name}", "/api/v1/sandboxes/all"}) {
    router.add("GET", pattern, {});
    router.add("POST", pattern, {});
  }
  return router;
}

}  // namespace

void url(std::string_view input) {
  CHECK(http::percent_decode(http::percent_encode(input)) == input);
  if (const auto decoded = http::percent_decode(input)) {
    CHECK(http::percent_decode(http::percent_encode(*decoded)) == *decoded);
  }
  (void)http::percent_decode(input, true);
  (void)http::query_value(input, "a");
  const auto query = "x=1&a=" + http::percent_encode(input) + "&a=2";
  CHECK(http::query_value(query, "a") == input);
  if (const auto parsed = http::parse_url(input)) {
    CHECK(!parsed->host.empty() && !parsed->base_path.ends_with('/'));
  }
  static const auto kRouter = make_router();
  Input parts{input};
  const auto method = parts.until(' ');
  for (const auto& match : {kRouter.match(method, parts.rest()), kRouter.match("GET", input)}) {
    for (const auto& [name, value] : match.parameters) {
      CHECK(!value.empty());
    }
  }
}

Seeds url_seeds() {
  return {"http://127.0.0.1:7070",
          "https://user@host.example/base/",
          "http://[::1]:80/x",
          "http://x:99999/",
          "http://x:/",
          "GET /api/v1/sandboxes/rs-1?limit=1&a=%2F",
          "POST /api/v1/sandboxes/a%2Fb/files/%00",
          "DELETE /api/v1/sandboxes/",
          "GET /api/v1/sandboxes/%zz",
          "a=%41+b&a=c",
          "a",
          "=&&a=%"};
}

}  // namespace atl::fuzz
