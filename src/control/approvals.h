// What waits for a person: flows and requests that a rule with `action: ask` has parked.
//
// Each question is asked once, and the flow stands still until somebody answers, the time is over
// or the connection is gone. Questions live in this process alone: when it ends, so do the
// connections that wait, and nothing was let through. Every question that ended, and who answered
// it, is kept in the flow log.
//
// An answer counts once, or for the session: then the same question of the same sandbox (the same
// rule, the same thing) is answered likewise until this process ends. Two that wait side by side
// are two questions, however alike they are: one answer lets one of them through. Loop thread only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/task.h"
#include "control/flow_log.h"
#include "egress/boundary.h"

namespace atl::control {

enum class ApprovalState : std::uint8_t {
  kPending,
  kAllowed,
  kDenied,
  kTimedOut,   // nobody answered
  kWithdrawn,  // whoever asked has gone
};
std::string_view approval_state_name(ApprovalState state);  // "timed_out"
std::optional<ApprovalState> approval_state_of(std::string_view name);

struct Approval {
  std::string id;
  egress::ApprovalQuestion question;
  ApprovalState state = ApprovalState::kPending;
  UnixMillis asked_at = 0;
  UnixMillis expires_at = 0;
  std::optional<UnixMillis> answered_at;
  std::string answered_by;  // the id of a key; empty: nobody did
  bool for_session = false;
};

struct ApprovalAnswer {
  bool allow = false;
  bool for_session = false;
  std::string answered_by;
};

struct ApprovalQuery {
  std::string team_id;
  std::string sandbox_id;              // empty: any
  std::optional<ApprovalState> state;  // of those that ended, newest first; none: every one
  std::size_t limit = 100;
};

class Approvals final : public egress::Approvals {
 public:
  Approvals(FlowLog& log, const WallClock& clock, Metrics& metrics, Duration timeout);
  Approvals(const Approvals&) = delete;
  Approvals& operator=(const Approvals&) = delete;

  Task<bool> ask(egress::ApprovalQuestion question) override;

  // Those that wait, oldest first, then those that ended, newest first.
  Task<std::vector<Approval>> list(ApprovalQuery query);
  // kNotFound: no such question of the team. kFailedPrecondition (reason "answered"): too late.
  Result<Approval> answer(const std::string& team_id, const std::string& id,
                          const ApprovalAnswer& answer);

  // What happens from `from` on to questions of the team: each when it is asked and when it ends.
  // Waits when there is nothing; moves `from`. News that were missed are left out.
  Task<std::vector<Approval>> news(std::string team_id, std::string sandbox_id,
                                   std::uint64_t& from);
  std::uint64_t now_in_news() const { return first_news_ + news_.size(); }

 private:
  struct Pending {
    Approval approval;
    Event answered;
  };
  using Key = std::tuple<std::string, std::string, std::string>;  // sandbox, rule, what

  Result<std::shared_ptr<Pending>> park(egress::ApprovalQuestion question);
  void end(Pending& pending, ApprovalState state);
  void remember(const egress::ApprovalQuestion& question, bool allow);
  void tell(const Approval& approval);
  static Task<> wait(std::shared_ptr<Pending> pending);

  FlowLog& log_;
  const WallClock& clock_;
  const Duration timeout_;
  std::map<std::string, std::shared_ptr<Pending>> pending_;
  std::map<Key, bool> remembered_;
  std::deque<Key> remembered_order_;
  std::deque<Approval> news_;
  std::uint64_t first_news_ = 0;
  Event told_;

  Gauge& waiting_;
  Counter& asked_;
};

}  // namespace atl::control
