#include "proxy/http/request_judge.h"

#include <algorithm>

#include "base/strings.h"
#include "egress/request_path.h"
#include "proxy/http/authority.h"
#include "proxy/http/injection.h"
#include "proxy/judge.h"

namespace atl::proxy::http {
namespace {

using egress::Action;
using egress::NamedPolicy;
using egress::NameValue;

// A request as rules are asked about it; owns what the facts point to.
class Facts {
 public:
  Facts(const RequestHead& head, std::string path) : path_(std::move(path)) {
    const auto question = head.target.find('?');
    if (question != std::string::npos) {
      for (const auto piece : split(std::string_view{head.target}.substr(question + 1), '&')) {
        add_parameter(piece);
      }
    }
    for (const auto& [name, value] : decoded_) {
      query_.push_back({name, value});
    }
    for (const auto& [name, value] : head.headers.lines()) {
      names_.push_back(to_lower(name));
      values_.push_back(value);
    }
    for (std::size_t at = 0; at < names_.size(); ++at) {
      headers_.push_back({names_[at], values_[at]});
    }
    facts_ = {.method = head.method, .path = path_, .query = query_, .headers = headers_};
  }
  Facts(const Facts&) = delete;
  Facts& operator=(const Facts&) = delete;
  const egress::RequestFacts& get() const { return facts_; }

 private:
  void add_parameter(std::string_view piece) {
    const auto equals = piece.find('=');
    const auto value = equals == std::string_view::npos ? "" : piece.substr(equals + 1);
    const auto decode = [](std::string_view text) {
      return atl::http::percent_decode(text, true).value_or(std::string{text});
    };
    decoded_.emplace_back(decode(piece.substr(0, equals)), decode(value));
  }

  std::string path_;
  std::vector<std::pair<std::string, std::string>> decoded_;
  std::vector<NameValue> query_;
  std::vector<std::string> names_;
  std::vector<std::string_view> values_;
  std::vector<NameValue> headers_;
  egress::RequestFacts facts_;
};

Answer denied(const Conversation& conversation, std::string code, const egress::Decision& decision,
              std::string_view origin) {
  auto& record = conversation.account->record;
  if (record.reason.empty()) {
    record.reason = decision.reason;
  }
  return denial_answer({.code = std::move(code),
                        .reason = decision.reason,
                        .rule = decision.rule,
                        .origin = std::string{origin}},
                       record.id);
}

// The first layer that denies speaks; then it is known whose rule it was.
std::optional<Answer> find_denial(const Conversation& conversation,
                                  const std::vector<NamedPolicy>& stack,
                                  const egress::RequestFacts& facts) {
  if (stack.empty()) {
    return denied(conversation, "egress_denied", egress::decide({}, conversation.flow), "");
  }
  for (const auto& layer : stack) {
    const auto flow = egress::decide({&layer, 1}, conversation.flow);
    if (flow.action == Action::kDeny) {
      return denied(conversation, "egress_denied", flow, layer.origin);
    }
    const auto request = egress::decide_request({&layer, 1}, conversation.flow, facts);
    if (request.action == Action::kDeny) {
      return denied(conversation, "egress_request_denied", request, layer.origin);
    }
  }
  return std::nullopt;
}

Task<bool> is_approved(Conversation& conversation, egress::RulesPtr rules, const RequestHead& head,
                       std::string path) {
  const auto decision = decide_with_origin(*rules, conversation.flow);
  const auto& record = conversation.account->record;
  // What was asked about the connection under the same rule is not asked again. Every layer may
  // have a rule of that name.
  if (decision.action != Action::kAsk ||
      (decision.rule == record.rule && decision.origin == record.origin)) {
    co_return true;
  }
  egress::ApprovalQuestion question{
      .sandbox_id = record.sandbox_id,
      .team_id = record.team_id,
      .flow_id = record.id,
      .rule = decision.rule,
      .what = concat(head.method, conversation.secure ? " https://" : " http://", head.authority,
                     path)};
  co_return co_await conversation.surroundings.approvals.ask(std::move(question));
}

// Path and query as they go on; the path in its canonical form where rules look at paths.
std::expected<std::string, Answer> judged_path(const Conversation& conversation,
                                               const std::vector<NamedPolicy>& stack,
                                               RequestHead& head) {
  const auto question = head.target.find('?');
  const std::string path = head.target.substr(0, question);
  if (path == "*") {
    return path;
  }
  auto canonical = egress::canonical_path(path);
  if (!egress::looks_at_paths(stack, conversation.flow)) {
    return canonical ? *std::move(canonical) : path;
  }
  if (!canonical) {
    return std::unexpected(failure_answer(400, "ambiguous_path", canonical.error().message,
                                          conversation.account->record.id));
  }
  head.target =
      question == std::string::npos ? *canonical : concat(*canonical, head.target.substr(question));
  return *std::move(canonical);
}

}  // namespace

Task<Verdict> judge_request(Conversation& conversation, ClientSide& client) {
  const std::string& flow_id = conversation.account->record.id;
  Verdict verdict;
  Plan& plan = verdict.plan;
  plan.rules = conversation.session->rules();
  // All but the fields, which nobody asks the client's side for again.
  Headers fields = std::move(client.head().headers);
  plan.request = client.head();
  plan.request.headers = std::move(fields);
  plan.path = plan.request.target.substr(0, plan.request.target.find('?'));
  if (!plan.rules) {
    verdict.refusal =
        failure_answer(403, "egress_denied", "the sandbox has no network policy", flow_id);
    co_return verdict;
  }
  if (const auto wrong = check_authority(conversation.flow, conversation.secure, plan.request)) {
    verdict.refusal = failure_answer(wrong->status, "wrong_host", wrong->reason, flow_id);
    co_return verdict;
  }
  const auto stack = plan.rules->stack();
  auto path = judged_path(conversation, stack, plan.request);
  if (!path) {
    verdict.refusal = std::move(path).error();
    co_return verdict;
  }
  plan.path = *path;
  const Facts facts{plan.request, *path};
  verdict.refusal = find_denial(conversation, stack, facts.get());
  if (verdict.refusal) {
    co_return verdict;
  }
  CO_TRY(const bool approved, co_await is_approved(conversation, plan.rules, plan.request, *path));
  if (!approved) {
    auto decision = egress::decide(stack, conversation.flow);
    decision.reason = concat("nobody approved it: ", decision.reason);
    verdict.refusal = denied(conversation, "not_approved", decision, "");
    co_return verdict;
  }
  plan.mcp_rules = egress::mcp_rules(stack, conversation.flow, facts.get());
  plan.route = {.flow = conversation.flow,
                .secure = conversation.secure,
                .prefers_http2 = conversation.http2,
                .websocket = plan.request.wants_websocket,
                .identity = nullptr};
  CO_TRY(verdict.refusal, co_await inject(conversation, plan, facts.get()));
  co_return verdict;
}

}  // namespace atl::proxy::http
