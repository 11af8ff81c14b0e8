// What left every sandbox, and what wanted to: the audit of the network boundary.
//
// The proxy tells of each flow twice, when it is decided and when it ends. record() only puts it
// into a bounded queue: what finds no room there is counted and lost, and the proxy never waits. A
// sandbox has only a share of the queue, so that its noise does not drown what others do.
// run() writes the queue to the flow file, a batch at a time. Bytes are added up apart from the
// queue, so that metering loses nothing to a full one.
//
// Whoever follows has no queue of its own: it is woken after each batch and reads on from the
// revision it has seen, so it is as slow as it likes and may come back later. Loop thread only.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/task.h"
#include "egress/boundary.h"
#include "io/offload.h"
#include "store/flow_file.h"

namespace atl::control {

using store::FlowFilter;
using store::kMaxFlowPage;
using store::Traffic;

// A flow as it is kept.
struct KeptFlow {
  std::int64_t sequence = 0;
  std::int64_t revision = 0;
  egress::FlowRecord record;
};

std::string_view outcome_name(egress::Outcome outcome);  // "allowed"
std::optional<egress::Outcome> outcome_of(std::string_view name);

class FlowLog final : public egress::Flows {
 public:
  // All outlive this. `thread` has one thread, which is the file's.
  FlowLog(store::FlowFile& file, io::OffloadPool& thread, const WallClock& clock, Metrics& metrics);
  FlowLog(const FlowLog&) = delete;
  FlowLog& operator=(const FlowLog&) = delete;

  void record(const egress::FlowRecord& flow) override;
  // Writes what comes until cancelled, then what is left.
  Task<> run();

  // Newest first, those before the sequence `before` (0: all).
  Task<std::vector<KeptFlow>> newest(store::FlowFilter filter, std::int64_t before,
                                     std::size_t limit);
  // Also one that was told of just now.
  Task<std::optional<KeptFlow>> find(std::string team_id, std::string id);
  // Bytes and flows of a sandbox, or of the whole team when it is empty; with those not written
  // yet.
  Task<store::Traffic> traffic(std::string team_id, std::string sandbox_id);

  // Somebody who follows; at most kMaxFlowFollowers at once, and fewer of one team.
  class Follower {
   public:
    Follower(Follower&& other) noexcept
        : log_(std::exchange(other.log_, nullptr)),
          filter_(std::move(other.filter_)),
          after_(other.after_) {}
    Follower& operator=(Follower&&) = delete;
    ~Follower();
    // What was written since, oldest first, at most a page; waits when there is nothing.
    Task<std::vector<KeptFlow>> next();

   private:
    friend class FlowLog;
    Follower(FlowLog& log, store::FlowFilter filter, std::int64_t after)
        : log_(&log), filter_(std::move(filter)), after_(after) {}
    FlowLog* log_;
    store::FlowFilter filter_;
    std::int64_t after_;
  };
  // From a revision on; without one from now on.
  Task<Follower> follow(store::FlowFilter filter, std::optional<std::int64_t> after);

  // Answered questions are kept in the same file, in the same batches.
  void record(store::ApprovalRow approval);
  Task<std::vector<store::ApprovalRow>> approvals(store::ApprovalFilter filter, std::int64_t before,
                                                  std::size_t limit);

 private:
  void count(const egress::FlowRecord& flow);
  egress::FlowRecord take();
  bool update_queued(const egress::FlowRecord& flow);
  void put_back(store::FlowBatch batch);
  Task<> write_pending();
  Task<> flush();
  // What a reader awaits is in the write that goes on or in the next. One that fails keeps nobody
  // waiting.
  template <class Awaits>
  Task<> until_written(Awaits awaits);
  Task<> write_until_cancelled();
  Task<> trim_for_ever();
  template <class Function>
  auto on_file(Function function) {
    return thread_.run(
        [file = &file_, function = std::move(function)]() mutable { return function(*file); });
  }

  store::FlowFile& file_;
  io::OffloadPool& thread_;
  const WallClock& clock_;
  std::deque<egress::FlowRecord> queue_;
  std::unordered_map<std::string, egress::FlowRecord*> unwritten_;  // of queue_, by id: those open
  std::map<std::string, std::size_t, std::less<>> queued_;          // by sandbox
  std::deque<store::ApprovalRow> approvals_;
  std::map<std::pair<std::string, std::string>, store::Traffic> traffic_;  // by team and sandbox
  bool writing_ = false;
  Event pending_;
  Event written_;
  std::uint64_t writes_ = 0;
  std::size_t followers_ = 0;
  std::map<std::string, std::size_t, std::less<>> followers_of_;  // by team

  Counter& bytes_out_;
  Counter& bytes_in_;
  Counter& allowed_;
  Counter& denied_;
  Counter& failed_;
  Counter& questions_;
  Counter& dropped_;
};

}  // namespace atl::control
