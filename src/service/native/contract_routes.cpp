#include "service/native/contract_routes.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::service::native {
namespace {

// If-None-Match: a list of entity tags or "*"; a weak tag is as good as a strong one here.
bool has_seen(std::string_view if_none_match, std::string_view etag) {
  const auto tags = split(if_none_match, ',');
  return std::ranges::any_of(tags, [etag](std::string_view tag) {
    tag = trim(tag);
    return tag == "*" || tag == etag || (tag.starts_with("W/") && tag.substr(2) == etag);
  });
}

Task<> respond_page(NativeExchange& exchange, const ContractPage& page) {
  http::Response response;
  response.headers.set("ETag", page.etag);
  // Kept, but asked about: after an update of the server nobody reads the old one.
  response.headers.set("Cache-Control", "public, no-cache");
  if (has_seen(exchange.request().headers.get("If-None-Match"), page.etag)) {
    response.status = 304;
    return exchange.respond(std::move(response));
  }
  response.headers.set("Content-Type", page.content_type);
  response.headers.set("X-Content-Type-Options", "nosniff");
  if (!page.security_policy.empty()) {
    response.headers.set("Content-Security-Policy", page.security_policy);
    response.headers.set("Referrer-Policy", "no-referrer");
  }
  response.body = page.content;
  return exchange.respond(std::move(response));
}

}  // namespace

void add_contract_routes(RouteTable& table) {
  for (const ContractPage& page : contract_pages()) {
    table.add_public_get(page.path, [&page](NativeExchange& exchange, const auto&) {
      return respond_page(exchange, page);
    });
  }
}

}  // namespace atl::service::native
