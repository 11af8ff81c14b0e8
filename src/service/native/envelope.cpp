#include "service/native/envelope.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/strings.h"

namespace atl::service::native {
namespace {

// By reason first, because a reason is narrower than a code.
struct ReasonRow {
  std::string_view reason;
  int status;
  std::string_view code;
};
constexpr std::array kByReason = std::to_array<ReasonRow>({
    {"file_not_found", 404, "file_not_found"},
    {"path_exists", 409, "path_exists"},
    {"path_not_directory", 409, "path_not_directory"},
    {"path_not_file", 409, "path_not_file"},
    {"directory_not_empty", 409, "conflict"},
    {"path_busy", 409, "conflict"},
    {"permission_denied", 403, "permission_denied"},
    {"read_only", 403, "permission_denied"},
    {"no_space", 507, "no_space"},
    {"bad_archive", 400, "bad_request"},
    {"archive_too_large", 413, "request_too_large"},
    {"too_many_entries", 413, "request_too_large"},
    {"precondition_failed", 412, "precondition_failed"},
    {"bad_offset", 416, "range_not_satisfiable"},
    {"range_not_satisfiable", 416, "range_not_satisfiable"},
    {"process_not_found", 404, "context_not_found"},
    {"process_ended", 410, "process_finished"},
    {"input_buffer_full", 409, "input_buffer_full"},
    {"pty_unavailable", 409, "pty_unavailable"},
    {"command_not_found", 400, "create_failed"},
    {"command_not_executable", 400, "create_failed"},
    {"interpreter_not_found", 400, "create_failed"},
    {"cwd_not_found", 400, "create_failed"},
    {"user_not_found", 400, "bad_request"},
    {"template_not_ready", 409, "template_not_ready"},
    {"template_failed", 409, "template_failed"},
    {"template_in_use", 409, "conflict"},
    {"build_network", 400, "bad_request"},
    {"memory_fork", 400, "bad_request"},
    {"name_taken", 409, "conflict"},
    {"credential_in_use", 409, "conflict"},
    {"idempotency_conflict", 409, "idempotency_conflict"},
    {"memory_in_use", 409, "conflict"},
    {"disk_in_use", 409, "conflict"},
    {"quota_exceeded", 429, "quota_exceeded"},
    {"request_too_large", 413, "request_too_large"},
    {"method_not_allowed", 405, "method_not_allowed"},
    {"guest_protocol", 502, "unavailable"},
});

std::string_view code_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
      return "bad_request";
    case Code::kUnauthenticated:
      return "unauthorized";
    case Code::kPermissionDenied:
      return "forbidden";
    case Code::kNotFound:
      return "not_found";
    case Code::kAlreadyExists:
    case Code::kFailedPrecondition:
    case Code::kAborted:
      return "conflict";
    case Code::kResourceExhausted:
      return "quota_exceeded";
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      return "unavailable";
    case Code::kUnimplemented:
      return "unimplemented";
    case Code::kCancelled:
      return "cancelled";
    case Code::kUnknown:
    case Code::kInternal:
    case Code::kDataLoss:
      return "internal_error";
  }
  return "internal_error";
}

}  // namespace

ApiFailure classify(const Error& error) {
  for (const auto& row : kByReason) {
    if (row.reason == error.reason) {
      return {row.status, row.code};
    }
  }
  return {code_http_status(error.code), code_of(error.code)};
}

http::Response data_response(int status, Json data) {
  http::Response response;
  response.status = status;
  response.headers.set("Content-Type", "application/json");
  response.body = Json::object({{"success", true}, {"data", std::move(data)}}).dump();
  return response;
}

http::Response error_response(const Error& error, bool tell_all, std::string_view request_id) {
  const ApiFailure failure = classify(error);
  const bool ours = failure.status == 500;
  Json body = Json::object();
  body.set("code", failure.code);
  body.set("message", ours && !tell_all
                          ? concat("something went wrong on the server; its log has the details "
                                   "under request id ",
                                   request_id)
                          : error.message);
  if (!error.reason.empty() && error.reason != failure.code) {
    body.set("details", Json::object({{"reason", error.reason}}));
  }
  http::Response response;
  response.status = failure.status;
  response.headers.set("Content-Type", "application/json");
  if (failure.status == 503 || failure.code == "template_not_ready") {
    response.headers.set("Retry-After", "1");
  }
  if (failure.status == 401) {
    response.headers.set("WWW-Authenticate", "Bearer");
  }
  response.body = Json::object({{"success", false}, {"error", std::move(body)}}).dump();
  return response;
}

std::string rfc3339(std::int64_t unix_ms) {
  // Some of these come from a guest; RFC 3339 has four digits for the year.
  constexpr std::int64_t kLastMs = 253'402'300'799'999;
  return format_unix_millis(std::clamp<std::int64_t>(unix_ms, 0, kLastMs));
}

Json rfc3339_or_null(std::optional<std::int64_t> unix_ms) {
  return unix_ms ? Json{rfc3339(*unix_ms)} : Json{nullptr};
}

}  // namespace atl::service::native
