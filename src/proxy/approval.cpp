#include "proxy/approval.h"

#include <poll.h>

#include "base/scope.h"
#include "proxy/flow_account.h"

namespace atl::proxy {
namespace {

struct Asked {
  Event over;
  std::optional<Result<bool>> answer;
  bool hung_up = false;
};

Task<> wait_for_answer(egress::Approvals& approvals, egress::ApprovalQuestion question,
                       Asked& asked) {
  asked.answer.emplace(co_await approvals.ask(std::move(question)));
  asked.over.set();
  co_return ok();
}

Task<> watch_client(Socket& client, bool end_is_hangup, Asked& asked) {
  CO_TRY_DO(co_await wait_readable(client));
  pollfd state{client.fd.get(), POLLIN | POLLRDHUP, 0};
  ::poll(&state, 1, 0);
  const bool ended = (state.revents & POLLRDHUP) != 0;
  const bool reset = (state.revents & (POLLERR | POLLHUP)) != 0;
  if (reset || (ended && end_is_hangup)) {
    asked.hung_up = true;
    asked.over.set();
  }
  co_return ok();
}

}  // namespace

egress::ApprovalQuestion question_about(const egress::FlowRecord& record, const Verdict& verdict,
                                        const egress::Flow& flow) {
  return {.sandbox_id = record.sandbox_id,
          .team_id = record.team_id,
          .flow_id = record.id,
          .rule = verdict.rule,
          .what = flow_title(flow)};
}

Task<bool> ask_for(Socket& client, bool end_is_hangup, egress::Approvals& approvals,
                   egress::ApprovalQuestion question) {
  Asked asked;
  Scope scope{co_await current_context()};
  scope.spawn("answer", wait_for_answer(approvals, std::move(question), asked));
  scope.spawn("client", watch_client(client, end_is_hangup, asked));
  auto waited = co_await asked.over.wait();
  CO_TRY_DO(co_await scope.cancel_and_join());
  CO_TRY_DO(std::move(waited));
  if (asked.hung_up) {
    co_return fail(Code::kUnavailable, "the client hung up before anybody answered");
  }
  co_return *std::move(asked.answer);
}

}  // namespace atl::proxy
