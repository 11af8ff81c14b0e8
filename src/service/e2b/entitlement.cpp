#include "service/e2b/entitlement.h"

#include "base/random.h"
#include "service/e2b/file_signature.h"

namespace atl::service::e2b {
namespace {

bool is_signed(const http::Request& request, const SandboxTarget& target, UnixMillis now) {
  if (request.path != "/files" || target.access_token.empty()) {
    return false;
  }
  const auto signature = FileSignature::of(request);
  return signature && signature->check_time(now) && signature->is_of(target.access_token);
}

bool is_for_contexts(std::string_view path) {
  return path == "/contexts" || path.starts_with("/contexts/");
}

bool may_use_interpreter(const http::Request& request, const SandboxTarget& target,
                         std::string_view traffic_token) {
  if (!target.token_right && request.headers.has(kAccessTokenHeader)) {
    return false;
  }
  if (target.token_right && !target.access_token.empty()) {
    return true;
  }
  const bool open = target.terms->public_traffic ||
                    equal_constant_time(request.headers.get(kTrafficTokenHeader), traffic_token);
  return open && (target.token_right || is_for_contexts(request.path));
}

}  // namespace

bool is_entitled(const http::Request& request, const SandboxTarget& target,
                 std::string_view traffic_token, UnixMillis now) {
  switch (target.port) {
    case kEnvdPort:
      return target.token_right || is_signed(request, target, now);
    case kInterpreterPort:
      return may_use_interpreter(request, target, traffic_token);
    default:
      return false;  // of other ports the gateway knows
  }
}

}  // namespace atl::service::e2b
