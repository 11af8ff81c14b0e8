#include "control/approvals.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

struct StateName {
  ApprovalState state;
  std::string_view name;
};
constexpr std::array<StateName, 5> kStates{{{ApprovalState::kPending, "pending"},
                                            {ApprovalState::kAllowed, "allowed"},
                                            {ApprovalState::kDenied, "denied"},
                                            {ApprovalState::kTimedOut, "timed_out"},
                                            {ApprovalState::kWithdrawn, "withdrawn"}}};
constexpr std::size_t kIdDigits = 20;

std::string bounded(std::string_view text) {
  return to_valid_utf8(text.substr(0, kMaxApprovalTextBytes));
}

store::ApprovalRow row_of(const Approval& approval) {
  const auto& question = approval.question;
  Json detail = Json::object({{"flow_id", question.flow_id},
                              {"rule", question.rule},
                              {"what", question.what},
                              {"expires_at", approval.expires_at},
                              {"answered_at", approval.answered_at.value_or(0)},
                              {"answered_by", approval.answered_by},
                              {"for_session", approval.for_session}});
  return {.id = approval.id,
          .sandbox_id = question.sandbox_id,
          .team_id = question.team_id,
          .state = std::string{approval_state_name(approval.state)},
          .asked_at = approval.asked_at,
          .detail = detail.dump()};
}

std::string text_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string{};
}

std::int64_t number_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->as_integer() != nullptr ? *value->as_integer() : 0;
}

Approval approval_of(const store::ApprovalRow& row) {
  const auto parsed = Json::parse(row.detail);
  const Json detail = parsed ? *parsed : Json::object();
  const Json* session = detail.find("for_session");
  Approval approval;
  approval.id = row.id;
  approval.question = {.sandbox_id = row.sandbox_id,
                       .team_id = row.team_id,
                       .flow_id = text_of(detail, "flow_id"),
                       .rule = text_of(detail, "rule"),
                       .what = text_of(detail, "what")};
  approval.state = approval_state_of(row.state).value_or(ApprovalState::kWithdrawn);
  approval.asked_at = row.asked_at;
  approval.expires_at = number_of(detail, "expires_at");
  if (const auto at = number_of(detail, "answered_at"); at != 0) {
    approval.answered_at = at;
  }
  approval.answered_by = text_of(detail, "answered_by");
  approval.for_session = session != nullptr && session->as_bool() != nullptr && *session->as_bool();
  return approval;
}

bool concerns(const Approval& approval, std::string_view team_id, std::string_view sandbox_id) {
  return approval.question.team_id == team_id &&
         (sandbox_id.empty() || approval.question.sandbox_id == sandbox_id);
}

}  // namespace

std::string_view approval_state_name(ApprovalState state) {
  return std::ranges::find(kStates, state, &StateName::state)->name;
}

std::optional<ApprovalState> approval_state_of(std::string_view name) {
  const auto* found = std::ranges::find(kStates, name, &StateName::name);
  return found == kStates.end() ? std::nullopt : std::optional{found->state};
}

Approvals::Approvals(FlowLog& log, const WallClock& clock, Metrics& metrics, Duration timeout)
    : log_(log),
      clock_(clock),
      timeout_(timeout),
      waiting_(metrics.gauge("atoll_network_approvals_pending", "Questions that wait")),
      asked_(metrics.counter("atoll_network_approvals_total", "Questions that were asked")) {}

Task<> Approvals::wait(std::shared_ptr<Pending> pending) {
  co_return co_await pending->answered.wait();
}

Result<std::shared_ptr<Approvals::Pending>> Approvals::park(egress::ApprovalQuestion question) {
  const auto waiting = std::ranges::count_if(pending_, [&](const auto& entry) {
    return entry.second->approval.question.sandbox_id == question.sandbox_id;
  });
  if (pending_.size() >= kMaxApprovals ||
      static_cast<std::size_t>(waiting) >= kMaxApprovalsPerSandbox) {
    return fail(Code::kResourceExhausted, "too many questions of this sandbox wait already",
                "too_many_approvals");
  }
  auto pending = std::make_shared<Pending>();
  Approval& approval = pending->approval;
  approval.id = concat("ap-", random_hex(kIdDigits));
  approval.question = std::move(question);
  approval.question.what = bounded(approval.question.what);
  approval.question.rule = bounded(approval.question.rule);
  approval.asked_at = clock_.now();
  approval.expires_at =
      approval.asked_at + std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count();
  pending_.emplace(approval.id, pending);
  return pending;
}

Task<bool> Approvals::ask(egress::ApprovalQuestion question) {
  const auto known =
      remembered_.find({question.sandbox_id, bounded(question.rule), bounded(question.what)});
  if (known != remembered_.end()) {
    co_return known->second;
  }
  CO_TRY(const auto pending, park(std::move(question)));
  asked_.add();
  waiting_.set(static_cast<std::int64_t>(pending_.size()));
  tell(pending->approval);
  const auto waited = co_await with_deadline(timeout_, wait(pending));
  if (pending->approval.state == ApprovalState::kPending) {
    const bool over = !waited && waited.error().code == Code::kDeadlineExceeded;
    end(*pending, over ? ApprovalState::kTimedOut : ApprovalState::kWithdrawn);
  }
  if (!waited && waited.error().code != Code::kDeadlineExceeded) {
    co_return fail(waited.error());
  }
  co_return pending->approval.state == ApprovalState::kAllowed;
}

void Approvals::end(Pending& pending, ApprovalState state) {
  Approval& approval = pending.approval;
  approval.state = state;
  log_.record(row_of(approval));
  LOG_INFO("approval", {"id", approval.id}, {"sandbox", approval.question.sandbox_id},
           {"rule", approval.question.rule}, {"state", approval_state_name(state)},
           {"key", approval.answered_by});
  tell(approval);
  pending_.erase(std::string{approval.id});
  waiting_.set(static_cast<std::int64_t>(pending_.size()));
}

void Approvals::remember(const egress::ApprovalQuestion& question, bool allow) {
  Key key{question.sandbox_id, question.rule, question.what};
  if (remembered_.insert_or_assign(key, allow).second) {
    remembered_order_.push_back(std::move(key));
  }
  if (remembered_order_.size() > kMaxRememberedAnswers) {
    remembered_.erase(remembered_order_.front());
    remembered_order_.pop_front();
  }
}

Result<Approval> Approvals::answer(const std::string& team_id, const std::string& id,
                                   const ApprovalAnswer& answer) {
  const auto found = pending_.find(id);
  if (found == pending_.end() || found->second->approval.question.team_id != team_id) {
    return fail(Code::kNotFound,
                concat("no question ", to_valid_utf8(id),
                       " waits for an answer: it was answered, its time was over, or whoever "
                       "asked has gone"),
                "approval_not_found");
  }
  const auto pending = found->second;  // end() takes it from the table
  pending->approval.answered_at = clock_.now();
  pending->approval.answered_by = answer.answered_by;
  pending->approval.for_session = answer.for_session;
  if (answer.for_session) {
    remember(pending->approval.question, answer.allow);
  }
  end(*pending, answer.allow ? ApprovalState::kAllowed : ApprovalState::kDenied);
  pending->answered.set();
  return pending->approval;
}

Task<std::vector<Approval>> Approvals::list(ApprovalQuery query) {
  std::vector<Approval> found;
  if (!query.state || *query.state == ApprovalState::kPending) {
    for (const auto& [id, pending] : pending_) {
      if (concerns(pending->approval, query.team_id, query.sandbox_id)) {
        found.push_back(pending->approval);
      }
    }
    std::ranges::sort(found, {}, &Approval::asked_at);
  }
  if (query.state == ApprovalState::kPending || found.size() >= query.limit) {
    found.resize(std::min(found.size(), query.limit));
    co_return std::move(found);
  }
  CO_TRY(const auto rows, co_await log_.approvals(
                              {.team_id = query.team_id,
                               .sandbox_id = query.sandbox_id,
                               .state = query.state ? std::string{approval_state_name(*query.state)}
                                                    : std::string{}},
                              0, query.limit - found.size()));
  for (const auto& row : rows) {
    found.push_back(approval_of(row));
  }
  co_return std::move(found);
}

void Approvals::tell(const Approval& approval) {
  news_.push_back(approval);
  if (news_.size() > kMaxApprovalNews) {
    news_.pop_front();
    ++first_news_;
  }
  told_.set();
}

Task<std::vector<Approval>> Approvals::news(std::string team_id, std::string sandbox_id,
                                            std::uint64_t& from) {
  for (;;) {
    std::vector<Approval> found;
    for (from = std::max(from, first_news_); from < now_in_news(); ++from) {
      const Approval& approval = news_[from - first_news_];
      if (concerns(approval, team_id, sandbox_id)) {
        found.push_back(approval);
      }
    }
    if (!found.empty()) {
      co_return std::move(found);
    }
    told_.clear();
    CO_TRY_DO(co_await told_.wait());
  }
}

}  // namespace atl::control
