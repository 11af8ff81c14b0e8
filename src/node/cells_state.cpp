// Cells that stand still: paused, snapshotted, put back to an earlier moment.
#include <chrono>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"
#include "node/cells.h"
#include "node/volumes.h"

namespace atl::node {

Result<> Cells::freeze(const std::string& id) {
  const IdLocks::Guard guard = locks_.lock(id);
  TRY(const Entry entry, require_running(id));
  TRY_DO(parts_.pool.flush_upper(id));
  TRY_DO(parts_.runtime.freeze(id));
  ATOLL_FAULT_POINT("node.freeze.frozen");
  auto synced = sync_disks(entry.stored);
  if (!synced) {
    // Not paused, so it must not stand still. The first error is the one to tell.
    if (const auto thawed = parts_.runtime.thaw(id); !thawed) {
      LOG_ERROR("a cell stays frozen after a failed pause", {"cell", id},
                {"error", thawed.error()});
    }
  }
  ATOLL_FAULT_POINT("node.freeze.synced");
  return synced;
}

Result<> Cells::sync_disks(const StoredCell& stored) {
  TRY_DO(parts_.pool.sync_upper(stored.id));
  for (const std::string& volume : stored.volumes) {
    if (parts_.pool.has_upper(volume)) {  // else it was deleted by force
      TRY_DO(parts_.pool.sync_upper(volume));
    }
  }
  return {};
}

Result<> Cells::thaw(const std::string& id) {
  const IdLocks::Guard guard = locks_.lock(id);
  TRY_DO(require_running(id));
  // A node that was killed between a dump and the end of its cell left both.
  TRY_DO(parts_.dumps.remove(Dumps::of_cell(id)));
  auto thawed = parts_.runtime.thaw(id);
  ATOLL_FAULT_POINT("node.thaw.thawed");
  return thawed;
}

Result<SnapshotAnswer> Cells::snapshot(const SnapshotRequest& request) {
  const IdLocks::Guard guard = locks_.lock(request.id);
  const IdLocks::Guard making = locks_.lock(snapshot_lock_id(request.snapshot));
  if (!parts_.pool.has_upper(request.id)) {
    return fail(Code::kNotFound, concat("there is no cell ", request.id));
  }
  if (parts_.pool.has_snapshot(request.snapshot)) {
    return fail(Code::kAlreadyExists, concat("snapshot ", request.snapshot, " already exists"));
  }
  if (request.memory) {
    return snapshot_with_memory(request);
  }
  const std::optional<Entry> entry = find(request.id);
  const bool moves = entry && entry->ticket != 0 && parts_.runtime.capabilities().freeze;
  if (moves) {
    TRY(const bool frozen, parts_.runtime.is_frozen(request.id));
    if (!frozen) {
      return snapshot_still(request);
    }
  }
  TRY_DO(parts_.pool.snapshot_upper(request.id, request.snapshot, {request.passing}));
  return SnapshotAnswer{};
}

// REQUIRES: the id's lock, a cell that runs and is not frozen.
Result<SnapshotAnswer> Cells::snapshot_still(const SnapshotRequest& request) {
  // What is only in memory goes to disk while the cell still runs, so that it stands still only
  // for what it writes until then.
  TRY_DO(parts_.pool.flush_upper(request.id));
  const auto begin = std::chrono::steady_clock::now();
  TRY_DO(parts_.runtime.freeze(request.id));
  ATOLL_FAULT_POINT("node.snapshot.frozen");
  auto taken = parts_.pool.snapshot_upper(request.id, request.snapshot, {request.passing});
  ATOLL_FAULT_POINT("node.snapshot.taken");
  if (auto thawed = parts_.runtime.thaw(request.id); !thawed) {
    LOG_ERROR("a cell stays frozen after its snapshot", {"cell", request.id},
              {"error", thawed.error()});
    return fail(std::move(thawed).error());
  }
  ATOLL_FAULT_POINT("node.snapshot.thawed");
  TRY_DO(taken);
  const auto stopped = std::chrono::steady_clock::now() - begin;
  return SnapshotAnswer{static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(stopped).count())};
}

Result<> Cells::detach(const DetachRequest& request) {
  const IdLocks::Guard guard = locks_.lock(request.id);
  TRY(const Entry entry, require_running(request.id));
  TRY(std::string directory, volume_directory(parts_.pool, request.mount.volume));
  return parts_.runtime.detach({entry.stored.id, entry.stored.pid, entry.stored.start_time},
                               {std::move(directory), request.mount.path});
}

Result<> Cells::restore(const SnapshotRequest& request) {
  const IdLocks::Guard guard = locks_.lock(request.id);
  const IdLocks::Guard reading = locks_.lock_shared(snapshot_lock_id(request.snapshot));
  const std::optional<Entry> entry = find(request.id);
  if (entry && entry->ticket != 0) {
    return fail(Code::kFailedPrecondition,
                concat("cell ", request.id, " runs; its disk cannot be exchanged"));
  }
  // Memory of another moment has no business on this disk.
  TRY_DO(parts_.dumps.remove(Dumps::of_cell(request.id)));
  auto restored = parts_.pool.restore_upper(request.id, request.snapshot, request.disk_bytes);
  ATOLL_FAULT_POINT("node.restore.exchanged");
  return restored;
}

}  // namespace atl::node
