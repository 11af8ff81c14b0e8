#include "proxy/http/answer.h"

#include "base/json.h"
#include "base/strings.h"

namespace atl::proxy::http {

Answer denial_answer(const Denial& denial, std::string_view flow_id) {
  Json error = Json::object({{"code", denial.code}, {"message", denial.reason}});
  if (!denial.rule.empty()) {
    error.set("rule", denial.rule);
  }
  if (!denial.origin.empty()) {
    error.set("origin", denial.origin);
  }
  error.set("flow_id", flow_id);
  error.set("help", concat("atoll why ", flow_id));
  return {.status = denial.status,
          .body = Json::object({{"error", std::move(error)}}).dump() + "\n",
          .note = denial.rule.empty() ? denial.code : concat("denied by ", denial.rule)};
}

Answer failure_answer(int status, std::string_view code, std::string_view reason,
                      std::string_view flow_id) {
  return denial_answer({.status = status, .code = std::string{code}, .reason = std::string{reason}},
                       flow_id);
}

Answer error_answer(const Error& error, bool is_clients, std::string_view flow_id) {
  switch (error.code) {
    case Code::kPermissionDenied:
      return failure_answer(403, error.reason.empty() ? "egress_denied" : error.reason,
                            error.message, flow_id);
    case Code::kDeadlineExceeded:
      return failure_answer(is_clients ? 408 : 504, "timeout", error.message, flow_id);
    case Code::kResourceExhausted:
      return failure_answer(error.reason == "request_too_large" ? 413 : 503, "too_large",
                            error.message, flow_id);
    default:
      return failure_answer(is_clients ? 400 : 502, is_clients ? "bad_request" : "bad_gateway",
                            error.message, flow_id);
  }
}

Task<> send_answer(ClientSide& client, Answer answer) {
  ResponseHead head{.status = answer.status, .length = answer.body.size()};
  head.has_body = !answer.body.empty() && client.head().method != "HEAD";
  if (!answer.body.empty()) {
    head.headers.add("content-type", answer.type);
  }
  head.headers.add("cache-control", "no-store");
  head.headers.add("x-atoll-egress", answer.status < 500 ? "denied" : "failed");
  const std::string_view body = head.has_body ? std::string_view{answer.body} : "";
  CO_TRY_DO(co_await client.start(std::move(head)));
  co_return co_await client.finish(body, {});
}

}  // namespace atl::proxy::http
