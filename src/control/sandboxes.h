// The life of every sandbox.
//
//   claim      cell made -> row `running`
//   delete     row `terminating` (durable) -> cell destroyed -> row gone
//   cell died  generation + 1 -> new cell on the same filesystem; too often -> `failed`
//   update     row -> limits of the running cell; a limit that the cell cannot get is undone
//   pause      cell frozen, disk durable -> row `paused`; resume the other way round
//   expiry     ttl and idle_ttl pause, hard_ttl deletes, to the second
//
// Rows are the truth and cells follow them. After a crash at any point reconcile() makes them
// agree: a `running` row has a cell that moves, a `paused` one at most a frozen one, a `starting`
// or `terminating` row is removed with its cell, a cell without a row is destroyed. So an
// acknowledged sandbox is never lost and none runs unaccounted. All rows are also held in memory,
// because this process is their only writer.
//
// One operation at a time per sandbox. A transition, once begun, is not cancelled with its caller;
// deadlines bound it. Loop thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/scope.h"
#include "control/documents.h"
#include "control/network_keeper.h"
#include "control/once_keys.h"
#include "control/sandbox_documents.h"
#include "control/sandbox_requests.h"
#include "control/store_access.h"
#include "control/templates.h"
#include "node/client.h"

namespace atl::control {

class PreparedCells;

struct SandboxesOptions {
  std::size_t max_sandboxes = 10'000;  // prepared cells are none yet
  ResourcePolicy resources;
  std::int64_t dump_after_seconds = 0;    // the memory of a paused one goes to disk; 0: never
  std::function<bool()> memory_is_short;  // then that happens earlier; empty: never
};

// Where a guest can be reached, and what its processes get.
struct RunningSandbox {
  std::string id;
  std::string guest_socket;
  StringMap env;     // of template and sandbox
  std::string user;  // of processes when nobody says otherwise
  std::string cwd;
};

// Names and sizes of an environment are in bounds; `field` is named in the message.
Result<> validate_env(const StringMap& env, std::string_view field);

// Decides how the sandboxes of a claim begin.
class ClaimStarter {
 public:
  using Next = std::function<Task<ClaimAnswer>(ClaimRequest)>;
  virtual ~ClaimStarter() = default;
  // Makes them by `next`.
  virtual Task<ClaimAnswer> claim(ClaimRequest request, Next next) = 0;
};

class Sandboxes {
 public:
  Sandboxes(StoreAccess store, node::Node& node, const WallClock& clock, Metrics& metrics,
            SandboxesOptions options);
  ~Sandboxes();
  Sandboxes(const Sandboxes&) = delete;
  Sandboxes& operator=(const Sandboxes&) = delete;

  // Reads the rows and repairs what an earlier process left. REQUIRES: before anything else.
  Task<> start();
  // Watches the node and the clock until cancelled; survives losing the node.
  Task<> run();

  // A claim would be accepted.
  bool ready() const { return ready_ && templates_.any_ready(); }
  const Templates& templates() const { return templates_; }
  // For whoever makes templates.
  Templates& changeable_templates() { return templates_; }
  std::size_t count_of_template(std::string_view name) const;
  std::set<std::string> used_layers() const;
  // Others that need layers: asked each time.
  void on_used_layers(std::function<std::set<std::string>()> also) {
    also_used_layers_ = std::move(also);
  }
  // Sandboxes of it, or what others say: without it they would not know how to run.
  // `besides`: a snapshot that does not count.
  bool template_needed(std::string_view name, std::string_view besides = {}) const {
    return count_of_template(name) > 0 ||
           (also_needs_template_ && also_needs_template_(name, besides));
  }
  void on_template_needed(std::function<bool(std::string_view, std::string_view)> also) {
    also_needs_template_ = std::move(also);
  }
  // A cell that is no sandbox and not an orphan either, until released.
  void adopt_cell(std::string id) { adopted_cells_.insert(std::move(id)); }
  void release_cell(const std::string& id) { adopted_cells_.erase(id); }
  // It has a way out like a sandbox with this row has, until it leaves.
  Task<> join_network(Sandbox as, node::CellInfo cell);
  void leave_network(std::string_view id);
  OnceKeys& once_keys() { return once_keys_; }
  // Told about every event of the node that is about a template.
  void on_template_event(std::function<void(const node::Event&)> handler) {
    template_event_ = std::move(handler);
  }
  // Without one, no sandbox has mounts. It outlives this, or null comes again.
  void on_mounts(MountKeeper* keeper) { mount_keeper_ = keeper; }
  MountKeeper* mount_keeper() const { return mount_keeper_; }
  // Told about the documents of new sandboxes, asked for those of forks. Outlives this.
  void add_document_keeper(DocumentKeeper& keeper) { document_keepers_.push_back(&keeper); }
  std::vector<store::Record> inherited_documents(const std::string& parent_id) const;
  // Asked when a ttl is over; without, the sandbox is paused with its memory.
  void on_ttl_over(std::function<TtlEnd(const Sandbox&)> decide) { ttl_over_ = std::move(decide); }
  // Told when a sandbox runs: it was made, started again or thawed.
  void on_started(std::function<void(const Sandbox&)> told) { started_ = std::move(told); }
  // Without one, all begin as was asked for. It outlives this, or null comes again.
  void on_claim(ClaimStarter* starter) { claim_starter_ = starter; }
  // Without, every claim makes its cells. They outlive this, or null comes again.
  void on_prepared(PreparedCells* cells) { prepared_ = cells; }
  PreparedCells* prepared() const { return prepared_; }
  // That no sandbox and no other cell has.
  std::string new_id(std::string_view template_name, IdStyle style) const;
  // Of a sandbox of this template for which nothing else is asked.
  Result<store::Limits> usual_limits(const std::string& template_name) const {
    return claim_limits({}, template_name);
  }
  // Without one, nothing leaves a sandbox. It outlives this, or null comes again.
  void on_network(NetworkKeeper* keeper) { network_keeper_ = keeper; }
  // Whether this node's sandboxes can have a way out, and why not.
  bool has_egress() const { return egress_; }
  bool has_egress_ipv6() const { return egress_ipv6_; }
  const std::string& egress_reason() const { return egress_reason_; }
  // Where its agent can be asked at this moment; empty when it does not run. Wakes nobody.
  std::string guest_socket_now(std::string_view id) const;
  // Of the team's sandboxes the one with this name, whatever its state, unless it is on its way
  // out.
  std::optional<Sandbox> named(const std::string& team_id, const std::string& name) const;
  // Both outlive each other as far as they are added: whoever goes first removes itself.
  void add_documents(SandboxDocuments& documents) { documents_.push_back(&documents); }
  void remove_documents(SandboxDocuments& documents) { std::erase(documents_, &documents); }
  // Sandboxes that have the volume, also those being made or removed.
  std::vector<std::string> mounted_in(std::string_view volume_id) const;
  // They lose the volume, for good and now, without being stopped where that is possible.
  Task<> unmount(std::string volume_id);
  // By force those that run are stopped for the change and started again, from their files, and
  // those that are paused lose their memory. REQUIRES: nobody can begin to use the volume.
  Task<> without_users(std::string volume_id, bool force, std::function<Task<>()> change);
  // Asks the node which builtin templates it has.
  Task<> refresh_templates();

  Task<ClaimAnswer> claim_all(ClaimRequest request);
  Task<Sandbox> claim(ClaimRequest request);  // of one, without `once`
  Task<> remove(std::string team_id, std::string id);
  // Durable when it returns. Nothing happens to one that is paused, except that its memory goes
  // when that is wanted.
  Task<PauseAnswer> pause(std::string team_id, std::string id, PauseMemory memory);
  // Also brings a failed one back, from its disk. Many callers at once get one resume.
  Task<ResumeAnswer> resume(std::string team_id, std::string id);
  // The disk of the sandbox `request.id` as it is now becomes the node's snapshot. Answers the row
  // it had then. A running sandbox stands still meanwhile, and while `also` is done.
  Task<Sandbox> snapshot_disk(std::string team_id, node::SnapshotRequest request,
                              std::function<Task<>()> also = {});
  // Whether this node can keep memory on disk, and why not.
  bool dumps_memory() const { return dumps_memory_; }
  const std::string& dumps_memory_reason() const { return dumps_memory_reason_; }
  Task<Sandbox> restore_disk(std::string team_id, std::string id, DiskMoment moment, bool force);
  Task<Sandbox> update(std::string team_id, std::string id, SandboxUpdate change);
  // Starts ttl and hard_ttl again; the ttl with another length, when one is given.
  Task<Sandbox> refresh(std::string team_id, std::string id, std::int64_t ttl_seconds);
  // kNotFound also for a sandbox of another team.
  Result<Sandbox> get(std::string_view team_id, std::string_view id) const;
  // Of whatever team: for those who prove in another way than by a key that they may.
  Result<Sandbox> get_of_any_team(std::string_view id) const;
  // What a paused one has of its processes; kDrop also when it is gone.
  PauseMemory memory_of(std::string_view id) const;
  ListAnswer list(const ListRequest& request) const;
  std::vector<Sandbox> all() const;  // of every team
  // The same, copied only where the status that is listed is not the row's. REQUIRES: `look`
  // changes nothing here.
  void each(const std::function<void(const Sandbox&)>& look) const;
  // When it will be paused for want of use, if nobody uses it until then.
  std::optional<UnixMillis> idle_expires_at(std::string_view id) const;
  // Now, and at intervals before; oldest first.
  Task<std::vector<UsageSample>> usage(std::string team_id, std::string id);

  // While one lives, somebody uses the sandbox: its idle time does not run. Must not outlive this.
  class Use;
  std::optional<Use> use(std::string_view team_id, std::string_view id);

  // Waits while the sandbox is being restarted; a paused one is resumed when it allows that.
  Task<RunningSandbox> running(std::string team_id, std::string id);
  // Rows and cells are made to agree. run() calls it when it must; tests call it too.
  Task<> reconcile();

 private:
  struct Entry;
  class Hold;
  struct Report;
  struct Repairs;
  struct Settling;
  using EntryPointer = std::shared_ptr<Entry>;  // shared by the table and operations that wait
  struct NewestFirst {
    bool operator()(const ListCursor& a, const ListCursor& b) const {
      return a.created_at != b.created_at ? a.created_at > b.created_at : a.id < b.id;
    }
  };
  using ListOrder = std::map<ListCursor, const Entry*, NewestFirst>;

  void set_ready(bool ready);
  Task<ClaimAnswer> claim_once(ClaimRequest request);
  Task<> remember_finished(std::string team_id, ClaimOnce once, const ClaimAnswer& answer);
  Task<ClaimAnswer> claim_started(ClaimRequest request);
  Task<ClaimAnswer> claim_or_find(ClaimRequest request);
  Task<EntryPointer> find_named(std::string team_id, std::string name);
  Task<ClaimAnswer> claim_now(ClaimRequest request);
  Result<std::vector<EntryPointer>> make_entries(const ClaimRequest& request, ClaimAnswer& answer);
  Result<EntryPointer> make_entry(const ClaimRequest& request, std::size_t index);
  Result<> begin_documents(const ClaimRequest& request, Entry& entry);
  Result<std::vector<Mount>> bind_mounts(const ClaimRequest& request, std::size_t index,
                                         const std::string& template_name);
  Task<> unmount_now(std::string volume_id);
  Task<> unmount_held(EntryPointer entry, std::string volume_id);
  Task<> without_users_now(std::string volume_id, bool force, std::function<Task<>()> change);
  std::vector<store::Record> own_documents(const Sandbox& row, const ClaimRequest& request) const;
  static bool has_processes(const Entry& entry);
  Result<store::Limits> claim_limits(const ClaimRequest& request,
                                     const std::string& template_name) const;
  void take_prepared(const ClaimRequest& request, Entry& entry);
  Task<> start_cell(EntryPointer entry, const ClaimRequest& request, Result<>& outcome);
  Task<node::CellInfo> use_prepared(EntryPointer entry);
  Task<node::CellInfo> make_cell(EntryPointer entry, const ClaimRequest& request);
  Task<> stop_cell(EntryPointer entry);
  Task<> greet_cell(EntryPointer entry, node::CellInfo cell);
  void lose_cell(Entry& entry);
  Task<> record_claim(std::vector<EntryPointer> made, const ClaimRequest& request,
                      ClaimAnswer& answer);
  Task<> undo_claim(std::vector<EntryPointer> entries, std::string key);
  Task<> remove_now(std::string team_id, std::string id);
  Task<> remove_held(EntryPointer entry);
  Result<EntryPointer> find(std::string_view team_id, std::string_view id) const;
  Task<Hold> hold(EntryPointer entry);
  Task<> change(Entry& entry, store::Transition transition, store::Durability durability);
  Task<> finish_deletion(EntryPointer entry);
  void remember(const EntryPointer& entry);
  void forget(Entry& entry);
  static store::Expected expected_row(const Entry& entry);
  static Duration hold_patience(const Entry& entry);
  static SandboxStatus view_status(const Entry& entry);
  static Sandbox view(const Entry& entry);

  Task<Sandbox> update_now(std::string team_id, std::string id, SandboxUpdate change);
  Task<Sandbox> refresh_now(std::string team_id, std::string id, std::int64_t ttl_seconds);
  static Result<> refuse_unchangeable(const Entry& entry);
  Task<> configure_with_limits(EntryPointer entry, Sandbox next);
  Task<> configure(EntryPointer entry, Sandbox next);
  Task<> apply_limits(EntryPointer entry, store::Limits limits);
  Task<> refuse_if_in_use(EntryPointer entry, store::Limits limits);
  Task<UsageSample> sample(EntryPointer entry);
  Task<> sample_all();

  Task<PauseAnswer> pause_now(std::string team_id, std::string id, PauseMemory memory);
  Task<> pause_held(EntryPointer entry, PauseMemory memory);
  Task<Sandbox> restore_disk_now(std::string team_id, std::string id, DiskMoment moment,
                                 bool force);
  Task<> exchange_disk(EntryPointer entry, DiskMoment moment);
  Task<bool> stand_still(EntryPointer entry);
  Task<> move_on(EntryPointer entry);
  Task<> take_back_pause(EntryPointer entry, Error error);
  Task<> dump_held(EntryPointer entry);
  void plan_dump(Entry& entry) const;
  Task<> dump_under_pressure();
  EntryPointer longest_frozen() const;
  Task<> end_cell(EntryPointer entry, bool sync = false);
  static PauseMemory kept_memory(const Entry& entry);
  Task<ResumeAnswer> resume_now(std::string team_id, std::string id);
  Task<> resume_held(EntryPointer entry, ResumeAnswer& answer);
  void rearm(const Entry& entry, store::Transition& transition);
  void note_resumed(Entry& entry, const ResumeAnswer& answer);

  // How long a repair may take: kShort leaves to settle_all() what is known to take long.
  enum class Patience : std::uint8_t { kShort, kLong };
  Task<> repair(EntryPointer entry, const node::CellInfo* cell, Patience patience, Report& report);
  Task<> repair_some(Repairs& work);
  Task<> destroy_orphans(std::vector<std::string> ids, Report& report);
  Task<> destroy_some_orphans(std::vector<std::string>& ids, Report& report, Result<>& outcome);
  Task<> restart(EntryPointer entry);
  Task<> mark_failed(Entry& entry, std::string why);
  Task<> on_cell_died(std::string id);
  Task<> restart_until_decided(EntryPointer entry);

  UnixMillis now();
  void begin_clock(Loop& loop);
  void move_deadlines(std::int64_t jump_ms);
  Task<> save_moved_deadlines();

  Task<> keep_node_session();
  Task<> read_node_events(Scope& scope, Event& lost);
  static std::optional<UnixMillis> due_at(const Entry& entry);
  void schedule(Entry& entry, std::optional<UnixMillis> at);
  Task<> expire_due(Scope& scope);
  Task<> expire_one(EntryPointer entry);
  Task<> retry_deletions();
  void unsettle(Entry& entry);
  void settle(Entry& entry, const Result<>& outcome);
  Task<> settle_all();
  Task<bool> settle_once();
  Task<> settle_some(Settling& work);
  Task<> settle_held(EntryPointer entry);

  StoreAccess store_;
  node::Node& node_;
  const WallClock& clock_;
  SandboxesOptions options_;  // the largest disk: what the node can hold, once it has said so
  Templates templates_;
  std::set<std::string> adopted_cells_;
  MountKeeper* mount_keeper_ = nullptr;
  std::vector<DocumentKeeper*> document_keepers_;
  NetworkKeeper* network_keeper_ = nullptr;
  ClaimStarter* claim_starter_ = nullptr;
  PreparedCells* prepared_ = nullptr;
  std::function<void(const Sandbox&)> started_;
  std::function<TtlEnd(const Sandbox&)> ttl_over_;
  std::vector<SandboxDocuments*> documents_;
  std::function<void(const node::Event&)> template_event_;
  std::function<std::set<std::string>()> also_used_layers_;
  std::function<bool(std::string_view, std::string_view)> also_needs_template_;
  bool ready_ = false;
  bool dumps_memory_ = false;
  std::string dumps_memory_reason_;
  bool egress_ = false;
  bool egress_ipv6_ = false;
  std::string egress_reason_;
  bool sampling_ = false;  // the node keeps an account of disks: asking costs little
  Event node_ready_;       // set while ready_
  std::map<std::string, EntryPointer, std::less<>> entries_;
  std::map<std::string, ListOrder, std::less<>> list_orders_;          // of entries_, by team
  std::map<std::pair<std::string, std::string>, EntryPointer> names_;  // by team and name
  UnixMillis last_created_at_ = 0;
  OnceKeys once_keys_;
  std::set<std::pair<UnixMillis, std::string>> deadlines_;  // at most one of each sandbox
  Event deadlines_changed_;
  struct ClockMark {
    UnixMillis wall = 0;
    Instant steady;
  };
  Loop* loop_ = nullptr;
  ClockMark mark_;  // two names of one moment
  Event clock_moved_;
  Event deletion_pending_;
  Event settling_pending_;
  std::size_t background_dumps_ = 0;

  Gauge& count_;
  Counter& claims_;
  Counter& failed_claims_;
  Counter& removals_;
  Counter& restarts_;
  Counter& dumps_;
  Counter& pauses_;
  Counter& resumes_;
  Counter& failures_;
  Histogram& claim_seconds_;
};

class Sandboxes::Use {
 public:
  Use(Sandboxes& owner, EntryPointer entry);
  Use(Use&& other) noexcept = default;
  Use& operator=(Use&&) = delete;
  ~Use();

 private:
  Sandboxes* owner_;
  EntryPointer entry_;  // null when moved from
};

}  // namespace atl::control
