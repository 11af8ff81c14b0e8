// Moments of a sandbox that can be gone back to, and new sandboxes that begin there.
//
// The disk is snapshotted by the node, then the row is written; both are durable before anybody is
// told. Killed in between, start() finds a snapshot without a row, which nobody was promised, and
// removes it. A deletion goes the other way: first the row, then the disk. Whatever is made from a
// snapshot is a copy of its own, so deleting one never hurts a sandbox. A fork is a snapshot that
// lives as long as its children take to be made. What an answer that got lost left on the node is
// found by the sweep that run() does now and then, and soon after the node did not answer. Loop
// thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/lineage.h"
#include "control/sandboxes.h"

namespace atl::control {

using Snapshot = store::Snapshot;

// As ClaimOnce, for a snapshot.
struct SnapshotOnce {
  std::string key;
  std::string body_sha256;
  std::function<std::string(const Snapshot&)> remember;
};

// A state of files that somebody names: that of a sandbox as it is now, or a snapshot.
struct StateRef {
  // Nobody outside names a kTemplateStart: it is found by its template.
  enum class Kind : std::uint8_t { kSandbox, kSnapshot, kTemplateStart };
  Kind kind = Kind::kSandbox;
  std::string id;
};
// By its form: what begins like the id of a snapshot is one.
StateRef state_ref(std::string id);

struct SnapshotRequest {
  std::string name;
  std::string description;
  std::optional<UnixMillis> expires_at;
  bool memory = false;  // with the processes, for claims that want them
  std::optional<SnapshotOnce> once;
  bool template_start = false;  // of a template, not of somebody's
};
// The state that sandboxes of a template begin with; it comes and goes with the template, and only
// remove_start(), template_starts() and hold() know it.
bool is_template_start(std::string_view snapshot_id);

struct SnapshotCreated {
  Snapshot snapshot;                      // unless `remembered`
  std::optional<std::string> remembered;  // what was answered the first time
};

// For whoever takes more than the disk along: what is done right before and right after the moment
// that the children begin with. A fork that was made before, under the same key, has none.
struct ForkHooks {
  std::function<Task<>()> before_moment;
  std::function<void()> after_moment;
  // The children move, also those that are to be paused: this does it.
  std::function<Task<ClaimAnswer>(ClaimAnswer)> children_made;
};

struct ForkRequest {
  std::size_t count = 1;
  bool partial = false;                     // fewer than `count` are better than none
  bool start = false;                       // false: the children are paused
  bool memory = false;                      // with the parent's processes
  std::optional<std::int64_t> ttl_seconds;  // else the parent's
  std::optional<std::int64_t> hard_ttl_seconds;
  NetworkRequestPtr network;  // null: the parent's, without its credentials
  std::optional<ClaimOnce> once;
  ForkHooks hooks;
};

class Snapshots {
 public:
  Snapshots(StoreAccess store, node::Node& node, Sandboxes& sandboxes, const WallClock& clock)
      : store_(store),
        node_(node),
        sandboxes_(sandboxes),
        clock_(clock),
        lineage_(store, sandboxes) {}

  // Reads the rows and removes what an earlier process left half done. REQUIRES: before anything
  // else, after the sandboxes have started.
  Task<> start();
  // Removes those whose time is over and disks that nobody knows, until cancelled.
  Task<> run();

  // Who came from whom.
  const Lineage& lineage() const { return lineage_; }

  Task<SnapshotCreated> create(std::string team_id, std::string sandbox_id,
                               SnapshotRequest request);
  // A snapshot of a cell that is no sandbox's; `row` says what it stands on and means.
  Task<Snapshot> adopt(std::string cell_id, Snapshot row, SnapshotRequest request);
  // Whether the team may have this one more.
  Result<> check_new(std::string_view team_id, const SnapshotRequest& request) const;
  // Oldest first. kNotFound when there is no such sandbox; its snapshots outlive it.
  Result<std::vector<Snapshot>> list(std::string_view team_id, std::string_view sandbox_id) const;
  std::vector<Snapshot> list_all(std::string_view team_id) const;  // oldest first
  Result<Snapshot> get(std::string_view team_id, std::string_view id) const;
  Task<> remove(std::string team_id, std::string id);
  // Nothing happens when it is gone.
  Task<> remove_start(std::string id);
  std::vector<Snapshot> template_starts() const;  // every team's
  // The disk of the sandbox becomes what the snapshot is. A running one is stopped for it when
  // `force` says so, and started again.
  Task<Sandbox> restore(std::string team_id, std::string sandbox_id, std::string snapshot_id,
                        bool force);
  Task<ClaimAnswer> fork(std::string team_id, std::string sandbox_id, ForkRequest request);
  // A claim that begins as the snapshot.
  Task<ClaimAnswer> claim(std::string snapshot_id, ClaimRequest request);
  // The state as a snapshot that stays until release(), whoever deletes it meanwhile. That of a
  // sandbox is the moment of this call; it has no row, and goes with its release, at the latest
  // with the next start.
  Task<Snapshot> hold(std::string team_id, StateRef ref);
  Task<> release(std::string id);
  std::set<std::string> used_layers() const;

 private:
  Task<SnapshotCreated> create_once(std::string team_id, std::string sandbox_id,
                                    SnapshotRequest request);
  struct Held {
    Snapshot snapshot;
    std::size_t count = 0;
    bool doomed = false;  // goes with the last who holds it
  };
  Result<Snapshot> find(std::string_view team_id, std::string_view id, bool template_start) const;
  Task<Snapshot> hold_moment(std::string team_id, std::string sandbox_id);
  Task<> release_now(std::string id);
  Task<Snapshot> adopt_now(std::string cell_id, Snapshot row, SnapshotRequest request);
  Task<Snapshot> create_now(std::string team_id, std::string sandbox_id, SnapshotRequest request);
  Task<> record(const Snapshot& snapshot, const std::optional<SnapshotOnce>& once);
  Task<ClaimAnswer> fork_now(std::string team_id, std::string sandbox_id, ForkRequest request);
  Task<Sandbox> restore_now(std::string team_id, std::string sandbox_id, std::string snapshot_id,
                            bool force);
  Task<ClaimAnswer> claim_now(std::string snapshot_id, ClaimRequest request);
  Task<ClaimRequest> begin_as_snapshot(std::string snapshot_id, std::shared_ptr<bool> held,
                                       ClaimRequest request);
  Task<ClaimRequest> begin_as_sandbox(std::string sandbox_id, std::string moment, ForkRequest asked,
                                      std::shared_ptr<MountLists> forked, ClaimRequest request);
  Task<> take_moment(Sandbox& parent, std::string moment, const ForkRequest& asked,
                     std::function<Task<>()> also);
  Task<> remove_now(std::string id);
  Task<> remove_from_node(std::string id);
  Task<> expire_due();
  Task<> sweep();
  UnixMillis next_wait_ms() const;

  StoreAccess store_;
  node::Node& node_;
  Sandboxes& sandboxes_;
  const WallClock& clock_;
  std::map<std::string, Snapshot, std::less<>> snapshots_;
  // On the node, or soon, without a row; and whose they are.
  std::map<std::string, std::string, std::less<>> making_;
  Lineage lineage_;
  std::map<std::string, Held, std::less<>> held_;
  bool unswept_ = false;  // the node may have a disk that is nobody's
  Event deadlines_changed_;
};

}  // namespace atl::control
