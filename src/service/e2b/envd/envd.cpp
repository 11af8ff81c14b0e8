#include "service/e2b/envd/envd.h"

#include <algorithm>

namespace atl::service::e2b::envd {
namespace {

std::unexpected<Error> no_token() {
  return fail(Code::kUnauthenticated,
              "unauthorized access, please provide a valid access token or method signing if "
              "supported");
}

// The newest sample; how busy the processors are needs the one before.
Json usage_json(const std::vector<control::UsageSample>& samples, UnixMillis now) {
  const control::UsageSample last = samples.empty() ? control::UsageSample{} : samples.back();
  double used_percent = 0;
  if (samples.size() > 1) {
    const control::UsageSample& before = samples[samples.size() - 2];
    const auto passed_ns = static_cast<double>(last.at - before.at) * 1e6;
    const bool comparable = passed_ns > 0 && last.generation == before.generation;
    used_percent =
        comparable
            ? 100.0 * static_cast<double>(last.cpu_nanoseconds - before.cpu_nanoseconds) / passed_ns
            : 0;
  }
  constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;
  return Json::object(
      {{"ts", now / 1000},
       {"cpu_count", (last.limits.cpu_millis + 999) / 1000},
       {"cpu_used_pct", used_percent},
       {"mem_total", last.limits.memory_bytes},
       {"mem_used", last.working_set_bytes},
       {"mem_cache", last.memory_bytes - std::min(last.memory_bytes, last.working_set_bytes)},
       {"mem_total_mib", last.limits.memory_bytes / kMebibyte},
       {"mem_used_mib", last.working_set_bytes / kMebibyte},
       {"disk_used", last.disk_bytes},
       {"disk_total", last.limits.disk_bytes}});
}

}  // namespace

Task<> Envd::handle(E2bExchange& exchange, const SandboxTarget& target) {
  const http::Request& request = exchange.request();
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (request.path == "/health" && reads) {
    co_return co_await exchange.respond({204, {{"Cache-Control", "no-store"}}, {}});
  }
  if (request.path == "/files") {
    co_return co_await transfers_.serve(exchange, target);
  }
  const auto slash = request.path.find('/', 1);
  if (request.method == "POST" && slash != std::string::npos) {
    const std::string service = request.path.substr(1, slash - 1);
    if (service == "process.Process" || service == "filesystem.Filesystem") {
      co_return co_await call(exchange, target, service, request.path.substr(slash + 1));
    }
  }
  if (!target.token_right) {
    co_return no_token();
  }
  if (request.path == "/files/compose") {
    co_return co_await transfers_.compose(exchange, target);
  }
  if (request.path == "/metrics" && reads) {
    co_return co_await metrics(exchange, target);
  }
  if (request.path == "/envs" && reads) {
    co_return co_await envs(exchange, target);
  }
  co_return co_await exchange.respond(error_response(404, "404 page not found"));
}

Task<> Envd::call(E2bExchange& exchange, const SandboxTarget& target, std::string service,
                  std::string method) {
  const auto format = call_format(exchange.request().headers);
  if (!format) {
    co_return co_await exchange.respond(
        {415,
         {{"Accept-Post",
           "application/json, application/proto, application/connect+json, "
           "application/connect+proto"}},
         {}});
  }
  if (!target.token_right) {
    co_return co_await respond_error(exchange, *format, no_token().error());
  }
  if (service == "process.Process") {
    co_return co_await processes_.serve(exchange, target, *format, std::move(method));
  }
  co_return co_await filesystem_.serve(exchange, target, *format, std::move(method));
}

Task<> Envd::envs(E2bExchange& exchange, const SandboxTarget& target) {
  Json envs = Json::object();
  for (const auto& [name, value] : target.env) {
    envs.set(name, value);
  }
  co_return co_await exchange.respond_json(200, envs, {{"Cache-Control", "no-store"}});
}

Task<> Envd::metrics(E2bExchange& exchange, const SandboxTarget& target) {
  CO_TRY(const auto samples,
         co_await sandboxes_.usage(target.sandbox.team_id, target.sandbox.sandbox_id));
  co_return co_await exchange.respond_json(200, usage_json(samples, clock_.now()),
                                           {{"Cache-Control", "no-store"}});
}

}  // namespace atl::service::e2b::envd
