// Questions that wait for a person: listed, followed, answered.
#include "base/strings.h"
#include "service/native/context_json.h"
#include "service/native/context_lines.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/flow_routes.h"

namespace atl::service::native {
namespace {

using control::Approval;
using control::ApprovalState;
using control::Permission;

constexpr std::int64_t kMaxListed = 1000;

Json approval_json(const Approval& approval) {
  const auto& question = approval.question;
  Json json = Json::object({{"id", approval.id},
                            {"sandbox_id", question.sandbox_id},
                            {"flow_id", question.flow_id},
                            {"rule", question.rule},
                            {"what", question.what},
                            {"state", approval_state_name(approval.state)},
                            {"asked_at", rfc3339(approval.asked_at)},
                            {"expires_at", rfc3339(approval.expires_at)}});
  if (approval.answered_at) {
    json.set("answered_at", rfc3339(*approval.answered_at));
    json.set("answered_by", approval.answered_by);
    json.set("remember", approval.for_session ? "session" : "once");
  }
  return json;
}

Result<control::ApprovalQuery> parse_query(const NativeExchange& exchange) {
  const std::string& query = exchange.request().query;
  TRY_DO(allow_query(query, {"sandbox_id", "state", "limit", "follow"}));
  control::ApprovalQuery wanted{.team_id = exchange.principal().team_id,
                                .sandbox_id = http::query_value(query, "sandbox_id").value_or(""),
                                .state = ApprovalState::kPending};
  const std::string state = http::query_value(query, "state").value_or("pending");
  wanted.state = control::approval_state_of(state);
  if (!wanted.state && state != "all") {
    return fail(Code::kInvalidArgument,
                "query parameter \"state\" must be pending, allowed, denied, timed_out, withdrawn "
                "or all");
  }
  TRY(const auto limit, query_integer(query, "limit", 1, kMaxListed));
  wanted.limit = static_cast<std::size_t>(limit.value_or(100));
  return wanted;
}

}  // namespace

void ApprovalRoutes::add_to(RouteTable& table) {
  if (approvals_ == nullptr) {
    return;
  }
  table.add("GET", "/api/v1/approvals", Permission::kSandboxRead,
            [this](NativeExchange& e, const auto&) { return list(e); });
  table.add("POST", "/api/v1/approvals/{id}", Permission::kSandboxWrite,
            [this](NativeExchange& e, const http::PathParameters& p) {
              return answer(e, parameter(p, "id"));
            });
}

Task<> ApprovalRoutes::list(NativeExchange& exchange) {
  CO_TRY(auto query, parse_query(exchange));
  CO_TRY(const bool following, query_boolean(exchange.request().query, "follow"));
  if (following) {
    co_return co_await follow(exchange, std::move(query));
  }
  CO_TRY(const auto found, co_await approvals_->list(std::move(query)));
  Json list = Json::array();
  for (const auto& approval : found) {
    list.push(approval_json(approval));
  }
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"approvals", std::move(list)}, {"count", found.size()}})));
}

// Those that wait now, then each as it is asked and as it ends.
Task<> ApprovalRoutes::follow(NativeExchange& exchange, control::ApprovalQuery query) {
  std::uint64_t from = approvals_->now_in_news();
  const auto filter = query;
  query.state = ApprovalState::kPending;
  CO_TRY(const auto waiting, co_await approvals_->list(std::move(query)));
  CO_TRY_DO(co_await start_lines(exchange, 200));
  std::string lines = "\n";
  for (const auto& approval : waiting) {
    lines += approval_json(approval).dump() + "\n";
  }
  for (;;) {
    CO_TRY_DO(co_await exchange.write(lines));
    const auto news = co_await with_deadline(
        kBlankLineInterval,
        while_followed(exchange, approvals_->news(filter.team_id, filter.sandbox_id, from)));
    const bool silent = !news && news.error().code == Code::kDeadlineExceeded;
    if (!news && !silent) {
      co_return fail(news.error());
    }
    if (exchange.server_stops().is_set()) {
      co_return fail(server_stops_error());
    }
    lines = silent ? "\n" : "";
    for (std::size_t i = 0; news && i < news->size(); ++i) {
      lines += approval_json(news->at(i)).dump() + "\n";
    }
  }
}

Task<> ApprovalRoutes::answer(NativeExchange& exchange, std::string id) {
  CO_TRY(const Json body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"decision", "remember"}));
  CO_TRY(const std::string decision, fields.required_string("decision"));
  CO_TRY(const auto remember, fields.string("remember"));
  if (decision != "allow" && decision != "deny") {
    co_return fail(Code::kInvalidArgument, "field \"decision\" must be allow or deny");
  }
  if (remember && *remember != "once" && *remember != "session") {
    co_return fail(Code::kInvalidArgument, "field \"remember\" must be once or session");
  }
  CO_TRY(const auto approval, approvals_->answer(exchange.principal().team_id, id,
                                                 {.allow = decision == "allow",
                                                  .for_session = remember == "session",
                                                  .answered_by = exchange.principal().key_id}));
  co_return co_await exchange.respond(data_response(200, approval_json(approval)));
}

}  // namespace atl::service::native
