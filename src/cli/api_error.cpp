#include "cli/api_error.h"

#include <array>

#include "base/strings.h"
#include "cli/limits.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxQuotedBytes = 200;

// The first code of this order that has the status wins; several share 400, 409 and 500.
constexpr std::array kPreferredCodes{
    Code::kInvalidArgument, Code::kUnauthenticated,    Code::kPermissionDenied,
    Code::kNotFound,        Code::kFailedPrecondition, Code::kResourceExhausted,
    Code::kUnimplemented,   Code::kUnavailable,        Code::kDeadlineExceeded,
    Code::kCancelled,       Code::kInternal,
};

}  // namespace

Code code_from_http_status(int status) {
  for (const Code code : kPreferredCodes) {
    if (code_http_status(code) == status) {
      return code;
    }
  }
  switch (status) {
    case 408:
      return Code::kDeadlineExceeded;
    case 410:
      return Code::kFailedPrecondition;
    case 413:
    case 507:
      return Code::kResourceExhausted;
    case 416:
      return Code::kOutOfRange;
    case 502:
      return Code::kUnavailable;
    default:
      return status >= 400 && status < 500 ? Code::kInvalidArgument : Code::kInternal;
  }
}

Error error_from_answer(int status, std::string_view body) {
  Error error{code_from_http_status(status), concat("the server answered ", status), {}};
  const auto json = Json::parse(body);
  const Json* detail = json ? json->find("error") : nullptr;
  if (detail == nullptr) {
    if (const auto text = trim(body); !text.empty() && text.size() <= kMaxQuotedBytes) {
      error.message += concat(": ", text);
    }
    return error;
  }
  // A text alone is what proxies and rate limiters say.
  const Json* message = detail->as_string() != nullptr ? detail : detail->find("message");
  if (message != nullptr && message->as_string() && !message->as_string()->empty()) {
    error.message = *message->as_string();
  }
  if (const Json* code = detail->find("code"); code && code->as_string()) {
    error.reason = *code->as_string();
  }
  // The narrower word, where the server has one.
  if (const Json* details = detail->find("details")) {
    const Json* reason = details->find("reason");
    if (reason != nullptr && reason->as_string()) {
      error.reason = *reason->as_string();
    }
  }
  if (error.reason == "path_exists") {
    error.code = Code::kAlreadyExists;
  }
  return error;
}

int start_failure_status(const Error& error) {
  if (error.reason == "command_not_found") {
    return kCommandNotFoundStatus;
  }
  if (error.reason == "command_not_executable" || error.reason == "interpreter_not_found") {
    return kNotExecutableStatus;
  }
  return kOwnFailureStatus;
}

bool process_is_gone(const Error& error) {
  return error.code == Code::kNotFound || error.reason == "process_ended" ||
         error.reason == "process_finished" || error.reason == "process_not_running";
}

Error transport_error(Error error, const Endpoint& endpoint) {
  if (error.code == Code::kCancelled || error.reason == kReasonBrokenPipe) {
    return error;
  }
  if (error.code == Code::kDeadlineExceeded) {
    error.message = concat("no answer from ", endpoint.url_text, " in time");
    return error;
  }
  error.code = Code::kUnavailable;
  error.message = concat("no answer from ", endpoint.url_text, ": ", error.message);
  error.reason = kReasonTransport;
  return error;
}

std::string hint_for(const Error& error, const Endpoint& endpoint) {
  if (error.reason == kReasonTransport) {
    return concat("is `atoll serve` running on ", endpoint.url_text,
                  "? Choose another server with --api-url or $ATOLL_API_URL");
  }
  if (error.reason == kReasonUsage) {
    return "see `atoll --help`";
  }
  if (error.code == Code::kUnauthenticated) {
    constexpr std::string_view kWhere =
        "the admin key is in admin.key of the server's data directory (the one given to "
        "`atoll serve --data-dir`); pass it with --api-key, $ATOLL_API_KEY, $ATOLL_KEY_FILE or "
        "--data-dir";
    if (!endpoint.key_problem.empty()) {
      return concat("no key was sent (", endpoint.key_problem, "); ", kWhere);
    }
    return concat("the key from ", endpoint.key_origin, " was refused; ", kWhere);
  }
  if (error.reason == "template_not_ready") {
    return "the template is still being built; try again in a moment";
  }
  if (error.reason == "quota_exceeded") {
    return "free some with `atoll rm ID`; `atoll ls -a` shows what is there";
  }
  return {};
}

}  // namespace atl::cli
