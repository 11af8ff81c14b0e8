#include "service/e2b/templates/upload_links.h"

#include "base/random.h"
#include "base/strings.h"
#include "http/message.h"

namespace atl::service::e2b {
namespace {

constexpr UnixMillis kLinkMs = 30LL * 60 * 1000;

}  // namespace

std::string UploadLinks::signature_of(const UploadGrant& grant, UnixMillis expires) const {
  // Each part with its length: no two grants are the same text.
  return tokens_.token("upload", concat(grant.team_id.size(), ":", grant.team_id, grant.hash.size(),
                                        ":", grant.hash, expires));
}

std::string UploadLinks::query_for(const UploadGrant& grant) const {
  const UnixMillis expires = clock_.now() + kLinkMs;
  return concat("team=", http::percent_encode(grant.team_id), "&expires=", expires,
                "&signature=", signature_of(grant, expires));
}

Result<UploadGrant> UploadLinks::check(std::string_view query, std::string_view hash) const {
  UploadGrant grant{http::query_value(query, "team").value_or(""), std::string{hash}};
  const auto expires = parse_u64(http::query_value(query, "expires").value_or(""));
  const std::string given = http::query_value(query, "signature").value_or("");
  if (!expires || *expires > INT64_MAX ||
      !equal_constant_time(given, signature_of(grant, static_cast<UnixMillis>(*expires)))) {
    return fail(Code::kUnauthenticated, "the signature of this upload link is not right");
  }
  if (static_cast<UnixMillis>(*expires) < clock_.now()) {
    return fail(Code::kUnauthenticated, "this upload link has expired; ask for a new one");
  }
  return grant;
}

}  // namespace atl::service::e2b
