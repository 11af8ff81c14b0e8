// The audit of the network boundary, in a file of its own beside the database: flows as they were
// decided and as they ended, who answered what was asked, and how many bytes moved.
//
// Apart from the database because it is written all the time and may be lost without harm to any
// sandbox: a damaged file is put aside and a new one begun. Calls block, each is one transaction
// that survives a crash of this process, and they are safe from any thread. The store does not
// look into `detail`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace atl::store {

// What is kept; the newest of each.
struct FlowRetention {
  std::int64_t rows_per_sandbox = 10'000;
  std::int64_t rows = 500'000;
  std::int64_t age_ms = 30LL * 24 * 3600 * 1000;
};
inline constexpr std::int64_t kMaxTrafficTotals = 100'000;  // sandboxes, also deleted ones
inline constexpr std::int64_t kMaxAnsweredApprovals = 100'000;
inline constexpr std::size_t kMaxFlowPage = 1000;

struct FlowRow {
  std::int64_t sequence = 0;  // in the order in which flows began; given by the file
  std::int64_t revision = 0;  // grows with every write of every row; given by the file
  std::string id;
  std::string sandbox_id;
  std::string team_id;
  UnixMillis began_at = 0;
  std::string kind;
  std::string protocol;
  std::string name;
  std::string outcome;
  std::string rule;
  std::string context_id;
  std::string detail;  // JSON
  bool operator==(const FlowRow&) const = default;
};

// Empty: any. A name may be "*.example.com", for it and all below it.
struct FlowFilter {
  std::string team_id;
  std::string sandbox_id;
  std::optional<UnixMillis> from;  // inclusive
  std::optional<UnixMillis> until;
  std::string kind;
  std::string protocol;
  std::string name;
  std::string outcome;
  std::string rule;
  std::string context_id;
};

// What moved, and how often.
struct Traffic {
  std::uint64_t bytes_out = 0;  // from the sandbox
  std::uint64_t bytes_in = 0;
  std::uint64_t flows = 0;
  std::uint64_t denied = 0;
  bool operator==(const Traffic&) const = default;
};
struct TrafficRow {
  std::string sandbox_id;
  std::string team_id;
  Traffic traffic;
};

// A question that somebody, or nobody, answered.
struct ApprovalRow {
  std::int64_t sequence = 0;  // given by the file
  std::string id;
  std::string sandbox_id;
  std::string team_id;
  std::string state;
  UnixMillis asked_at = 0;
  std::string detail;  // JSON
  bool operator==(const ApprovalRow&) const = default;
};
struct ApprovalFilter {
  std::string team_id;
  std::string sandbox_id;
  std::string state;
};

struct FlowBatch {
  std::vector<FlowRow> flows;       // one with a known id replaces what is there
  std::vector<TrafficRow> traffic;  // added
  std::vector<ApprovalRow> approvals;
};

class FlowFile {
 public:
  virtual ~FlowFile() = default;

  virtual Result<> write(const FlowBatch& batch) = 0;
  // Forgets what is older or more than is kept.
  virtual Result<> trim(UnixMillis now) = 0;
  // Newest first, those before `before` (a sequence; 0: all).
  virtual Result<std::vector<FlowRow>> newest(const FlowFilter& filter, std::int64_t before,
                                              std::size_t limit) = 0;
  // What was written after a revision, in that order. A flow that was written twice comes once, as
  // it is now.
  virtual Result<std::vector<FlowRow>> written_after(const FlowFilter& filter,
                                                     std::int64_t revision, std::size_t limit) = 0;
  virtual Result<std::optional<FlowRow>> find(const std::string& team_id,
                                              const std::string& id) = 0;
  virtual std::int64_t last_revision() = 0;
  // Zero for what is not known. An empty sandbox: the team.
  virtual Result<Traffic> traffic(const std::string& team_id, const std::string& sandbox_id) = 0;
  virtual Result<std::vector<ApprovalRow>> approvals(const ApprovalFilter& filter,
                                                     std::int64_t before, std::size_t limit) = 0;
};

// Opens or makes the file (mode 0600). What was open when an earlier process ended is closed as
// failed.
Result<std::unique_ptr<FlowFile>> open_sqlite_flow_file(const std::string& path,
                                                        FlowRetention retention = {});

}  // namespace atl::store
