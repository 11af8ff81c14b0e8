// Bodies and queries of the routes: claims, updates, REPLs, metrics, paths of files.
#include "base/strings.h"
#include "control/template_spec.h"
#include "fuzz.h"
#include "service/native/file_target.h"
#include "service/native/metric_series.h"
#include "service/native/repl_config.h"
#include "service/native/sandbox_json.h"

namespace atl::fuzz {
namespace {

constexpr UnixMillis kNow = 1'800'000'000'000;

void check_clean(std::string_view path) {
  CHECK(path.starts_with('/') && path.find("//") == path.npos);
  for (const auto part : split(path, '/')) {
    CHECK(part != "." && part != "..");
  }
}

}  // namespace

void request_bodies(std::string_view input) {
  if (const auto json = Json::parse(input)) {
    const auto claim = service::native::parse_claim(*json);
    CHECK(!claim || !claim->request.template_name.empty());
    (void)service::native::parse_update(*json);
    if (const auto fields = service::native::Fields::of(*json, "repl", {"alias", "repl_config"})) {
      (void)service::native::parse_repl_config(*fields);
    }
  }
  if (const auto metrics = service::native::parse_metrics(input, kNow)) {
    CHECK(metrics->start <= metrics->end && metrics->step_seconds > 0);
    (void)service::native::metrics_json(*metrics, {});
  }
  const control::FileDefaults defaults{.user = "user", .cwd = "/workspace"};
  check_clean(service::native::absolute_path(input, defaults));
  if (const auto target = service::native::parse_file_target(input, defaults)) {
    check_clean(target->path);
  }
}

Seeds request_bodies_seeds() {
  return {R"({"template":"default","config":{"ttl":300,"hard_ttl":3600,"env_vars":{"A":"b"},)"
          R"("resources":{"memory":"1Gi"},"services":[]}})",
          R"({"template":"default","count":3,"name":"x"})",
          R"({"config":{"ttl":1,"resources":{"memory":"512Mi","cpu":"500m"}}})",
          R"({"template":[],"config":null})",
          R"({"alias":"x","repl_config":{"name":"x","candidates":[{"name":"irb","args":["-f"]}],)"
          R"("env":[{"name":"T","value":"v"},{"name":"P","value_from":"prompt"}],)"
          R"("prompt":{"custom_prompt":"> "},"ready":{"mode":"prompt_token","token":"x"}}})",
          R"({"repl_config":[]})",
          "start=2026-11-15T00:00:00Z&end=2026-11-15T01:00:00Z&step=60&statistic=average",
          "step=0",
          "step=99999999999999999999&start=x",
          "path=%2Fa%2F..%2F..%2Fb%2F&user=root",
          "path=a/./b//c",
          "path=%00",
          "../../.."};
}

}  // namespace atl::fuzz
