#include "ingress/port_refusal.h"

#include "base/json.h"
#include "base/strings.h"

namespace atl::ingress {
namespace {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string page(const PortRefusal& refusal) {
  const std::string port = refusal.port ? concat(", port ", *refusal.port) : std::string{};
  return concat("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>",
                refusal.status,
                "</title><style>body{font:16px system-ui,sans-serif;max-width:40em;margin:15vh "
                "auto;padding:0 1em}code{background:#8882;padding:.1em .3em}</style></head><body>"
                "<h1>",
                escape_html(refusal.message), "</h1><p>Sandbox <code>",
                escape_html(refusal.sandbox_id), "</code>", port, ".</p></body></html>\n");
}

}  // namespace

bool is_navigation(const http::Request& request) {
  if (request.method != "GET" || !to_lower(request.headers.get("accept")).contains("text/html")) {
    return false;
  }
  const auto mode = request.headers.get("sec-fetch-mode");
  return mode.empty() ? request.headers.get("user-agent").starts_with("Mozilla/")
                      : mode == "navigate";
}

http::Response refusal_response(const http::Request& request, const PortRefusal& refusal) {
  http::Headers headers{{"cache-control", "no-store"}};
  if (refusal.status == 429) {
    headers.add("retry-after", "1");
  }
  if (is_navigation(request)) {
    headers.add("content-type", "text/html; charset=utf-8");
    return {refusal.status, std::move(headers), page(refusal)};
  }
  headers.add("content-type", "application/json");
  Json body = Json::object({{"sandboxId", to_valid_utf8(refusal.sandbox_id)},
                            {"message", refusal.message},
                            {"code", refusal.status}});
  if (refusal.port) {
    body.set("port", *refusal.port);
  }
  return {refusal.status, std::move(headers), body.dump()};
}

}  // namespace atl::ingress
