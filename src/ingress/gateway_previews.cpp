// Previews: a link that is good once becomes a cookie, and the cookie opens one port.
#include <algorithm>

#include "base/strings.h"
#include "ingress/counted.h"
#include "ingress/gateway.h"

namespace atl::ingress {
namespace {

// Where to go on: a path on the same host, whatever somebody has made of the link.
std::string safe_next(std::string_view query) {
  const auto next = http::query_value(query, "next").value_or("/");
  const auto in_line = [](char c) { return c > 0x20 && c < 0x7F && c != '\\'; };
  return next.starts_with('/') && !next.starts_with("//") && std::ranges::all_of(next, in_line)
             ? next
             : "/";
}

struct CookieForm {
  std::string_view name;
  std::string_view path;
  std::string_view attributes;
};

// The strictest form that browsers take here: a host of its own and TLS, TLS alone, neither.
CookieForm cookie_form(const control::PublicNames& names, std::string_view prefix) {
  const std::string_view path = prefix.empty() ? std::string_view{"/"} : prefix;
  if (names.scheme != "https") {
    return {kPlainPreviewCookie, path, "; HttpOnly; SameSite=Lax"};
  }
  return {prefix.empty() ? kPreviewCookie : kPreviewPathCookie, path,
          "; Secure; HttpOnly; SameSite=None; Partitioned"};
}

}  // namespace

std::optional<control::Preview> Gateway::find_preview(const http::Request& request,
                                                      const Visit& visit) const {
  std::vector<std::string> credentials =
      cookie_values(request.headers, cookie_form(parts_.names, visit.target.prefix).name);
  if (const auto token = request.headers.get(kPreviewHeader); !token.empty()) {
    credentials.emplace_back(token);
  }
  for (const std::string& credential : credentials) {
    if (auto preview = parts_.previews.find(visit.sandbox_id, visit.target.port, credential)) {
      return preview;
    }
  }
  return std::nullopt;
}

Task<> Gateway::open_preview(http::Exchange& exchange, Visit& visit) {
  const http::Request& request = exchange.request();
  auto opened =
      request.method != "GET"
          ? Result<control::Previews::Opened>{fail(Code::kUnauthenticated,
                                                   "open the link with GET")}
          : co_await parts_.previews.open(visit.sandbox_id, visit.target.port,
                                          http::query_value(request.query, "token").value_or(""));
  if (!opened) {
    co_return co_await refuse(exchange, visit, 401, "unauthorized", opened.error().message);
  }
  visit.team_id = opened->preview.team_id;
  visit.service_id = "preview";
  visit.route_id = opened->preview.id;
  visit.outcome = egress::Outcome::kAllowed;
  visit.traffic.status = 303;
  const auto form = cookie_form(parts_.names, visit.target.prefix);
  http::Headers headers{
      {"location", concat(visit.target.prefix, safe_next(request.query))},
      {"set-cookie", concat(form.name, "=", opened->cookie, "; Path=", form.path, form.attributes)},
      {"cache-control", "no-store"},
      {"referrer-policy", "no-referrer"}};
  co_return co_await exchange.respond({303, std::move(headers), {}});
}

Forward Gateway::preview_forward(const http::Exchange& exchange, const Visit& visit,
                                 const control::Preview& preview) const {
  const http::Request& request = exchange.request();
  const std::string path = visit.path.empty() ? "/" : visit.path;
  Forward forward;
  forward.upstream = {.team_id = preview.team_id,
                      .sandbox_id = preview.sandbox_id,
                      .generation = preview.generation,
                      .port = preview.port,
                      .secure = preview.secure};
  forward.method = request.method;
  forward.path = request.query.empty() ? path : concat(path, "?", request.query);
  forward.fields = request_fields(request, {.path = forward.path,
                                            .peer = exchange.peer(),
                                            .scheme = parts_.names.scheme,
                                            .prefix = visit.target.prefix});
  forward.view = {.framable = true, .prefix = visit.target.prefix};
  return forward;
}

Task<> Gateway::serve_preview(http::Exchange& exchange, Visit& visit, control::Preview preview) {
  visit.team_id = preview.team_id;
  visit.service_id = "preview";
  visit.route_id = preview.id;
  const Counted in_sandbox{busy_, preview.sandbox_id};
  if (in_sandbox.count() > kMaxExchangesPerSandbox) {
    co_return co_await refuse(exchange, visit, 429, "too_many_requests",
                              "too many requests are under way", {{"retry-after", "1"}});
  }
  const auto use = parts_.sandboxes.use(preview.team_id, preview.sandbox_id);
  auto woken = co_await parts_.previews.wake(preview.team_id, preview.sandbox_id);
  if (woken) {
    woken = co_await wake(visit, true);
  }
  if (!woken) {
    co_return co_await refuse(exchange, visit, woken.error(), {});
  }
  visit.outcome = egress::Outcome::kAllowed;
  Forward forward = preview_forward(exchange, visit, preview);
  auto passed =
      wants_websocket(exchange.request())
          ? co_await forward_websocket(exchange, parts_.upstreams, std::move(forward),
                                       visit.traffic)
          : co_await forward_request(exchange, parts_.upstreams, std::move(forward), visit.traffic);
  if (!passed && !exchange.started() && passed.error().code != Code::kCancelled) {
    co_return co_await refuse(exchange, visit, between_us(passed.error()), {});
  }
  co_return std::move(passed);
}

}  // namespace atl::ingress
