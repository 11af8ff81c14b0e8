#include "control/flow_log.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/flow_row.h"
#include "control/limits.h"

namespace atl::control {
namespace {

using egress::FlowRecord;
using egress::Outcome;

std::vector<KeptFlow> kept(const std::vector<store::FlowRow>& rows) {
  std::vector<KeptFlow> flows;
  flows.reserve(rows.size());
  for (const auto& row : rows) {
    flows.push_back({row.sequence, row.revision, flow_record(row)});
  }
  return flows;
}

void add(store::Traffic& sum, const store::Traffic& more) {
  sum.bytes_out += more.bytes_out;
  sum.bytes_in += more.bytes_in;
  sum.flows += more.flows;
  sum.denied += more.denied;
}

constexpr const char* kFlows = "atoll_network_flows_total";
constexpr const char* kFlowsHelp = "Flows of sandboxes that ended, by outcome";
constexpr const char* kBytes = "atoll_network_bytes_total";
constexpr const char* kBytesHelp = "Bytes that sandboxes sent and received";

}  // namespace

FlowLog::FlowLog(store::FlowFile& file, io::OffloadPool& thread, const WallClock& clock,
                 Metrics& metrics)
    : file_(file),
      thread_(thread),
      clock_(clock),
      bytes_out_(metrics.counter(kBytes, kBytesHelp, "direction=\"out\"")),
      bytes_in_(metrics.counter(kBytes, kBytesHelp, "direction=\"in\"")),
      allowed_(metrics.counter(kFlows, kFlowsHelp, "outcome=\"allowed\"")),
      denied_(metrics.counter(kFlows, kFlowsHelp, "outcome=\"denied\"")),
      failed_(metrics.counter(kFlows, kFlowsHelp, "outcome=\"failed\"")),
      questions_(
          metrics.counter("atoll_network_dns_questions_total", "DNS questions of sandboxes")),
      dropped_(metrics.counter("atoll_network_flows_dropped_total",
                               "Records of flows that found no room in the queue")) {}

void FlowLog::count(const FlowRecord& flow) {
  if (flow.outcome == Outcome::kOpen) {
    return;  // counted when it ends
  }
  bytes_out_.add(flow.bytes_out);
  bytes_in_.add(flow.bytes_in);
  const bool denied = flow.outcome == Outcome::kDenied;
  if (flow.kind == "dns") {
    questions_.add();
  } else {
    (denied ? denied_ : flow.outcome == Outcome::kFailed ? failed_ : allowed_).add();
  }
  add(traffic_[{flow.team_id, flow.sandbox_id}], {.bytes_out = flow.bytes_out,
                                                  .bytes_in = flow.bytes_in,
                                                  .flows = flow.kind == "dns" ? 0U : 1U,
                                                  .denied = denied ? 1U : 0U});
}

void FlowLog::record(const FlowRecord& flow) {
  count(flow);
  const auto share = queued_.find(flow.sandbox_id);
  const std::size_t queued = share == queued_.end() ? 0 : share->second;
  if (update_queued(flow)) {
    return;
  }
  if (queue_.size() >= kMaxQueuedFlows || queued >= kMaxQueuedFlowsPerSandbox) {
    dropped_.add();
  } else {
    queue_.push_back(flow);
    ++queued_[flow.sandbox_id];
    if (flow.outcome == Outcome::kOpen) {
      unwritten_.emplace(flow.id, &queue_.back());
    }
  }
  pending_.set();
}

// A flow that ends before its beginning was written is written once.
bool FlowLog::update_queued(const FlowRecord& flow) {
  const auto queued = unwritten_.find(flow.id);
  if (queued == unwritten_.end() || queued->second->sandbox_id != flow.sandbox_id) {
    return false;
  }
  *queued->second = flow;
  return true;
}

FlowRecord FlowLog::take() {
  FlowRecord flow = std::move(queue_.front());
  queue_.pop_front();
  unwritten_.erase(flow.id);
  const auto share = queued_.find(flow.sandbox_id);
  if (--share->second == 0) {
    queued_.erase(share);
  }
  return flow;
}

void FlowLog::record(store::ApprovalRow approval) {
  if (approvals_.size() < kMaxQueuedFlows) {
    approvals_.push_back(std::move(approval));
    pending_.set();
  }
}

// What was counted meanwhile is added to. Answers go before those that came meanwhile, and what
// finds no room then is the newest.
void FlowLog::put_back(store::FlowBatch batch) {
  dropped_.add(batch.flows.size());
  for (const auto& row : batch.traffic) {
    add(traffic_[{row.team_id, row.sandbox_id}], row.traffic);
  }
  approvals_.insert(approvals_.begin(), std::make_move_iterator(batch.approvals.begin()),
                    std::make_move_iterator(batch.approvals.end()));
  if (approvals_.size() > kMaxQueuedFlows) {
    approvals_.resize(kMaxQueuedFlows);
  }
}

Task<> FlowLog::write_pending() {
  pending_.clear();
  store::FlowBatch batch;
  std::vector<FlowRecord> flows;
  while (flows.size() < kMaxFlowBatch && !queue_.empty()) {
    flows.push_back(take());
  }
  for (auto& [key, traffic] : std::exchange(traffic_, {})) {
    batch.traffic.push_back({.sandbox_id = key.second, .team_id = key.first, .traffic = traffic});
  }
  batch.approvals.assign(std::make_move_iterator(approvals_.begin()),
                         std::make_move_iterator(approvals_.end()));
  approvals_.clear();
  writing_ = true;
  auto wrote = co_await on_file([&batch, &flows](store::FlowFile& file) {
    std::ranges::transform(flows, std::back_inserter(batch.flows), flow_row);
    return file.write(batch);
  });
  writing_ = false;
  if (!wrote) {
    LOG_ERROR("flows could not be written", {"count", batch.flows.size()},
              {"error", wrote.error()});
    put_back(std::move(batch));
  }
  if (!queue_.empty()) {
    pending_.set();
  }
  ++writes_;
  written_.set();
  co_return std::move(wrote);
}

Task<> FlowLog::write_until_cancelled() {
  for (;;) {
    CO_TRY_DO(co_await pending_.wait());
    // What comes a little later costs nothing more in the same transaction.
    CO_TRY_DO(co_await sleep_for(kFlowBatchTime));
    if (auto wrote = co_await write_pending(); !wrote) {  // it has said so
      CO_TRY_DO(co_await sleep_for(kFlowRetry));
      pending_.set();
    }
  }
}

Task<> FlowLog::trim_for_ever() {
  for (;;) {
    const UnixMillis now = clock_.now();
    auto trimmed = co_await on_file([now](store::FlowFile& file) { return file.trim(now); });
    if (!trimmed) {
      LOG_WARN("old flows could not be forgotten", {"error", trimmed.error()});
    }
    CO_TRY_DO(co_await sleep_for(kFlowTrimInterval));
  }
}

Task<> FlowLog::run() {
  Scope beside{co_await current_context()};
  beside.spawn("trim", trim_for_ever());
  auto ended = co_await write_until_cancelled();
  (void)co_await beside.cancel_and_join();
  (void)co_await shielded(flush());
  co_return std::move(ended);
}

Task<> FlowLog::flush() {
  while (!queue_.empty() || !approvals_.empty() || !traffic_.empty()) {
    CO_TRY_DO(co_await write_pending());
  }
  co_return ok();
}

Task<std::vector<KeptFlow>> FlowLog::newest(store::FlowFilter filter, std::int64_t before,
                                            std::size_t limit) {
  CO_TRY(const auto rows, co_await on_file([&](store::FlowFile& file) {
           return file.newest(filter, before, limit);
         }));
  co_return kept(rows);
}

template <class Awaits>
Task<> FlowLog::until_written(Awaits awaits) {
  const std::uint64_t last = writes_ + 2;
  while ((writing_ || awaits()) && writes_ < last) {
    written_.clear();
    CO_TRY_DO(co_await written_.wait());
  }
  co_return ok();
}

Task<std::optional<KeptFlow>> FlowLog::find(std::string team_id, std::string id) {
  // An approval or a refusal has named it, perhaps just now.
  CO_TRY_DO(co_await until_written(
      [&] { return std::ranges::find(queue_, id, &FlowRecord::id) != queue_.end(); }));
  CO_TRY(const auto row,
         co_await on_file([&](store::FlowFile& file) { return file.find(team_id, id); }));
  if (!row) {
    co_return std::nullopt;
  }
  co_return KeptFlow{row->sequence, row->revision, flow_record(*row)};
}

Task<store::Traffic> FlowLog::traffic(std::string team_id, std::string sandbox_id) {
  CO_TRY(store::Traffic sum, co_await on_file([&](store::FlowFile& file) {
           return file.traffic(team_id, sandbox_id);
         }));
  for (const auto& [key, more] : traffic_) {
    if (key.first == team_id && (sandbox_id.empty() || key.second == sandbox_id)) {
      add(sum, more);
    }
  }
  co_return sum;
}

Task<std::vector<store::ApprovalRow>> FlowLog::approvals(store::ApprovalFilter filter,
                                                         std::int64_t before, std::size_t limit) {
  // Somebody who has just answered shall find the answer.
  CO_TRY_DO(co_await until_written([this] { return !approvals_.empty(); }));
  co_return co_await on_file(
      [&](store::FlowFile& file) { return file.approvals(filter, before, limit); });
}

Task<FlowLog::Follower> FlowLog::follow(store::FlowFilter filter,
                                        std::optional<std::int64_t> after) {
  const auto own = followers_of_.find(filter.team_id);
  if (followers_ >= kMaxFlowFollowers ||
      (own != followers_of_.end() && own->second >= kMaxFlowFollowersPerTeam)) {
    co_return fail(Code::kResourceExhausted, "too many follow the flows already");
  }
  ++followers_;
  ++followers_of_[filter.team_id];
  Follower follower{*this, std::move(filter), after.value_or(0)};
  if (!after) {
    CO_TRY(follower.after_, co_await on_file([](store::FlowFile& file) -> Result<std::int64_t> {
             return file.last_revision();
           }));
  }
  co_return std::move(follower);
}

FlowLog::Follower::~Follower() {
  if (log_ != nullptr) {
    --log_->followers_;
    const auto own = log_->followers_of_.find(filter_.team_id);
    if (--own->second == 0) {
      log_->followers_of_.erase(own);
    }
  }
}

Task<std::vector<KeptFlow>> FlowLog::Follower::next() {
  for (;;) {
    const std::uint64_t seen = log_->writes_;
    std::int64_t last = 0;  // nothing up to here is looked at again
    CO_TRY(const auto rows, co_await log_->on_file([this, &last](store::FlowFile& file) {
      last = file.last_revision();
      return file.written_after(filter_, after_, kFlowFollowPage);
    }));
    if (!rows.empty()) {
      after_ = rows.back().revision;
      co_return kept(rows);
    }
    after_ = std::max(after_, last);
    while (log_->writes_ == seen) {
      log_->written_.clear();
      CO_TRY_DO(co_await log_->written_.wait());
    }
  }
}

}  // namespace atl::control
