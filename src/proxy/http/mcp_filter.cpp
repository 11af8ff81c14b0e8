#include "proxy/http/mcp_filter.h"

#include <array>
#include <set>

#include "base/strings.h"
#include "proxy/http/limits.h"
#include "proxy/http/sse_filter.h"

namespace atl::proxy::http {
namespace {

// From this version on, headers repeat the method and the name of a message.
constexpr std::string_view kMirroringVersion = "2026-07-28";
constexpr std::array<std::string_view, 4> kMcpFields{"mcp-protocol-version", "mcp-method",
                                                     "mcp-name", "mcp-session-id"};

std::string media_type(const Headers& headers) {
  const auto type = headers.get("content-type");
  return to_lower(trim(type.substr(0, type.find(';'))));
}

bool is_encoded(const Headers& headers) {
  const auto encoding = headers.get("content-encoding");
  return headers.count("content-encoding") > 1 ||
         (!encoding.empty() && !equals_ignore_case(trim(encoding), "identity"));
}

// A whole JSON document, under a cap.
class JsonAnswerFilter final : public BodyFilter {
 public:
  JsonAnswerFilter(const egress::McpPolicy& policy, HeldBytes::Share share)
      : policy_(policy), share_(std::move(share)) {}

  Result<std::string> feed(std::string_view bytes) override {
    if (body_.size() + bytes.size() > kMaxAnswerBytes) {
      return fail(Code::kUnavailable, "the MCP server's answer is too large to be checked");
    }
    TRY_DO(share_.hold(body_.size() + bytes.size()));
    body_ += bytes;
    return std::string{};
  }
  Result<std::string> finish() override {
    if (trim(body_).empty()) {
      return std::string{};
    }
    auto message = Json::parse(body_);
    if (!message) {
      return fail(Code::kUnavailable,
                  concat("the MCP server's answer is not plain JSON: ", message.error().message));
    }
    return filter_tools(policy_, *std::move(message)).dump();
  }

 private:
  const egress::McpPolicy& policy_;
  HeldBytes::Share share_;
  std::string body_;
};

}  // namespace

Json filter_tools(const egress::McpPolicy& policy, Json message) {
  if (auto* batch = message.as_array()) {
    for (auto& one : *batch) {
      one = filter_tools(policy, std::move(one));
    }
    return message;
  }
  const Json* id = message.find("id");
  if (id == nullptr) {
    return message;
  }
  const std::set<std::string> ids{id->dump()};
  return policy.filter_answer(std::move(message), ids);
}

Result<std::unique_ptr<McpExchange>> McpExchange::begin(
    const std::vector<const egress::ProtocolRule*>& rules, RequestHead& request) {
  TRY(auto policy, egress::McpPolicy::compile(rules));
  request.headers.set("accept-encoding", "identity");
  return std::unique_ptr<McpExchange>{new McpExchange{std::move(policy), request}};
}

std::optional<Answer> McpExchange::check_head(std::string_view flow_id) const {
  for (const auto field : kMcpFields) {
    if (request_.headers.count(field) > 1) {
      return failure_answer(400, "mcp_malformed", concat("more than one field ", field), flow_id);
    }
  }
  if (request_.wants_websocket) {
    return failure_answer(403, "mcp_malformed", "MCP rules cover this host: no WebSockets",
                          flow_id);
  }
  if (request_.has_body && is_encoded(request_.headers)) {
    return failure_answer(415, "mcp_malformed", "MCP messages must be sent uncompressed", flow_id);
  }
  if (request_.length.value_or(0) > egress::kMaxMcpBodyBytes) {
    return failure_answer(413, "too_large", "the MCP message is too large", flow_id);
  }
  return std::nullopt;
}

std::optional<std::string_view> McpExchange::mirror_violation(std::string_view body) const {
  const auto version = request_.headers.get("mcp-protocol-version");
  const auto message = Json::parse(body);
  if (version < kMirroringVersion || !message || message->as_object() == nullptr) {
    return std::nullopt;
  }
  const Json* method = message->find("method");
  if (method == nullptr || method->as_string() == nullptr) {
    return std::nullopt;
  }
  if (request_.headers.get("mcp-method") != *method->as_string()) {
    return "Mcp-Method differs from the message's method";
  }
  const Json* params = message->find("params");
  const Json* name = params != nullptr ? params->find("name") : nullptr;
  if (name == nullptr && params != nullptr) {
    name = params->find("uri");
  }
  const bool named = name != nullptr && name->as_string() != nullptr;
  if ((named || request_.headers.has("mcp-name")) &&
      (!named || request_.headers.get("mcp-name") != *name->as_string())) {
    return "Mcp-Name differs from the message's name";
  }
  return std::nullopt;
}

std::optional<Answer> McpExchange::judge(std::string_view body, std::string_view flow_id,
                                         FlowAccount& account) {
  auto judged = policy_->judge(body);
  if (!judged) {
    account.add_operation("mcp malformed message denied");
    return failure_answer(400, "mcp_malformed", judged.error().message, flow_id);
  }
  verdict_ = *std::move(judged);
  for (const auto& operation : verdict_.operations) {
    account.add_operation(verdict_.allowed ? operation : concat(operation, " denied"));
  }
  if (!verdict_.allowed) {
    const bool is_silent = verdict_.denial.empty();
    return Answer{.status = is_silent ? 202 : 200,
                  .body = verdict_.denial,
                  .note = concat("denied: ", verdict_.reason)};
  }
  if (const auto violation = mirror_violation(body)) {
    return failure_answer(400, "mcp_malformed", *violation, flow_id);
  }
  return std::nullopt;
}

Result<std::unique_ptr<BodyFilter>> McpExchange::answer_filter(const ResponseHead& head,
                                                               HeldBytes::Share share) const {
  const auto type = media_type(head.headers);
  const bool is_json = type == "application/json" || type.ends_with("+json");
  const bool is_events = type == "text/event-stream";
  if (!head.has_body || head.status >= 300 || (!is_json && !is_events)) {
    return nullptr;
  }
  if (is_encoded(head.headers)) {
    return fail(Code::kUnavailable, "the MCP server compressed its answer without being asked to");
  }
  if (is_json) {
    return std::make_unique<JsonAnswerFilter>(*policy_, std::move(share));
  }
  return std::make_unique<SseFilter>(
      [policy = policy_.get()](Json message) { return filter_tools(*policy, std::move(message)); },
      std::move(share));
}

}  // namespace atl::proxy::http
