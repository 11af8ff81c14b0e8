// The cells of this installation: what atolld asked for, turned into calls of runtime and layers.
//
// A cell is in the table when it has a record on disk: running, or dead and not yet destroyed.
// Operations on one id are serialised, different ids run in parallel; nothing slow happens under
// the table's own mutex. Every operation either completes or is undone, and what a killed process
// left half done is undone by recover() at the next start. Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "layers/room.h"
#include "node/cell_records.h"
#include "node/create_turns.h"
#include "node/death_watch.h"
#include "node/dumps.h"
#include "node/id_locks.h"
#include "node/parked_sockets.h"
#include "node/protocol.h"
#include "node/uid_ranges.h"
#include "runtime/room.h"

namespace atl::node {

struct RecoverySummary {
  std::size_t adopted = 0;     // still run
  std::size_t dead = 0;        // had died; cleaned up, their uppers kept
  std::size_t undone = 0;      // creates that were cut short
  std::size_t unrecorded = 0;  // kernel objects without a record, removed
  std::size_t failed = 0;      // could not be cleaned up
};

class Cells {
 public:
  struct Parts {
    runtime::Runtime& runtime;
    layers::Pool& pool;
    UidRanges& uids;
    CellRecords records;
    Dumps dumps;
    std::string socket_dir;  // guests' sockets are made here
    uid_t socket_uid = 0;    // who may connect to them
    gid_t socket_gid = 0;
    std::size_t creates_at_once = node::creates_at_once();
    std::function<void(const std::string& id)> on_died;  // called on the watch's thread
  };
  static Result<std::unique_ptr<Cells>> open(Parts parts);
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  // Once, before anything else.
  Result<RecoverySummary> recover();
  // Also for what has ids but is no cell.
  IdLocks& locks() { return locks_; }

  Result<CellInfo> create(const CreateRequest& request);
  Result<> destroy(const DestroyRequest& request);  // idempotent
  // Ends the cell; its upper becomes a layer.
  Result<> commit(const std::string& id, const std::string& layer);
  // Refused while a cell of the table stands on it. Idempotent.
  Result<> remove_layer(const std::string& layer);
  std::vector<CellInfo> list(const std::string& after_id, std::size_t max_count) const;
  Result<Usage> usage(const std::string& id);
  Result<> set_limits(const std::string& id, const Limits& limits);
  // What it wrote is on disk when this returns.
  Result<> freeze(const std::string& id);
  Result<> thaw(const std::string& id);
  // A running cell stands still meanwhile, as short as can be; one that was frozen stays it.
  Result<SnapshotAnswer> snapshot(const SnapshotRequest& request);
  // kNotFound when the cell does not run or has no such mount.
  Result<> detach(const DetachRequest& request);
  Result<> restore(const SnapshotRequest& request);
  // Refused while a cell that runs has the volume: it would go on with the old disk.
  Result<> restore_volume(const VolumeRequest& request);
  Result<> remove_snapshot(const std::string& snapshot);
  // See node/client.h. One at a time serves them.
  Result<std::shared_ptr<NetworkSockets>> open_network(const std::string& id);
  Result<Fd> open_socket(const SocketRequest& request);
  // The memory of a frozen cell goes to disk, and its processes end. When that cannot be, it stays
  // frozen.
  Result<DumpAnswer> dump(const std::string& id);
  // Ends every cell and keeps its upper, and its memory where that can be dumped in time, except
  // those of builds. Called when no request is under way any more.
  Result<> stop();

 private:
  struct Entry {
    StoredCell stored;
    DeathWatch::Ticket ticket = 0;  // 0: not running
    // Kept, so that they outlive an API process and nothing of the cell can take their place.
    std::shared_ptr<const ParkedSockets> network;
  };

  explicit Cells(Parts parts) : parts_(std::move(parts)), turns_(parts_.creates_at_once) {}

  std::optional<Entry> find(const std::string& id) const;
  void put(Entry entry);
  Result<Entry> require_running(const std::string& id) const;
  CellInfo info_of(const Entry& entry) const;
  std::string socket_path(const std::string& id) const;

  Result<CellInfo> make(const CreateRequest& request);
  Result<> begin_mounting(const std::vector<Mount>& mounts);
  void end_mounting(const std::vector<Mount>& mounts);
  Result<> begin_exchange(const std::string& volume);
  Result<> check_space(const CreateRequest& request) const;
  Result<> find_views(const CreateRequest& request, runtime::CellSpec& spec) const;
  Result<runtime::CellSpec> check_create(const CreateRequest& request) const;
  Result<Entry> build(const CreateRequest& request, runtime::CellSpec spec, StoredCell stored,
                      CellInfo& info);
  Result<std::string> make_upper(const CreateRequest& request);
  Result<> limit_disk(const std::string& id, std::uint64_t limit_bytes);
  Result<> widen_disk(const std::string& id, std::uint64_t limit_bytes);
  Result<> undo_create(const StoredCell& stored, const std::optional<Entry>& before);
  Result<DeathWatch::Ticket> watch(const std::string& id, Fd pidfd);
  void on_death(DeathWatch::Ticket ticket);
  enum class Disk : std::uint8_t { kStays, kGoes };
  Result<> end_processes(const Entry& entry, Disk disk = Disk::kStays);
  // What the cell wrote is on disk: its own, and the volumes it has.
  Result<> sync_disks(const StoredCell& stored);
  Result<SnapshotAnswer> snapshot_still(const SnapshotRequest& request);
  Result<SnapshotAnswer> snapshot_with_memory(const SnapshotRequest& request);

  Result<> check_room_for(const std::string& id);
  Result<std::uint64_t> dump_to(const Entry& entry, const std::string& name,
                                std::chrono::seconds time_limit);
  Result<DumpAnswer> dump_and_end(const Entry& entry, std::chrono::seconds time_limit);
  bool will_restore(const CreateRequest& request) const;
  Result<std::string> choose_dump(const CreateRequest& request);
  Result<Entry> build_with_memory(const CreateRequest& request, const runtime::CellSpec& spec,
                                  const StoredCell& stored, CellInfo& info);
  Result<Entry> finish_restore(const std::string& dump, Result<Entry> entry);
  bool stop_one(const std::string& id, std::chrono::seconds time_left);
  Result<> recover_dumps();

  Result<> recover_one(StoredCell stored, RecoverySummary& summary);
  bool must_be_undone(const StoredCell& stored);
  bool adopt(const StoredCell& stored);
  Result<> remove_unrecorded(RecoverySummary& summary);
  Result<> remove_passing_uppers(RecoverySummary& summary);
  void remove_stale_sockets();

  Parts parts_;
  std::string boot_id_;
  IdLocks locks_;
  CreateTurns turns_;
  std::shared_mutex layers_in_use_;  // shared: a create; exclusive: a removal
  mutable std::mutex mutex_;
  std::map<std::string, Entry> table_;
  std::map<DeathWatch::Ticket, std::string> tickets_;
  std::multiset<std::string> mounting_;  // volumes of cells that are being made
  std::set<std::string> exchanging_;     // volumes that get another disk
  DeathWatch::Ticket next_ticket_ = 1;
  std::unique_ptr<DeathWatch> death_watch_;  // last: its thread calls on_death
};

}  // namespace atl::node
