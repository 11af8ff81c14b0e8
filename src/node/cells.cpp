#include "node/cells.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"
#include "io/stream.h"
#include "node/volumes.h"

namespace atl::node {
namespace {

runtime::CellRecord runtime_record(const StoredCell& stored) {
  return {stored.id, stored.pid, stored.start_time};
}

std::shared_ptr<NetworkSockets> share(std::optional<runtime::NetworkSockets> network) {
  return !network ? nullptr
                  : std::make_shared<NetworkSockets>(
                        std::move(network->tcp), std::move(network->udp), std::move(network->dns));
}

runtime::Limits runtime_limits(const Limits& limits) {
  return {limits.memory_bytes, limits.cpu_millis, limits.process_count};
}

}  // namespace

Result<std::unique_ptr<Cells>> Cells::open(Parts parts) {
  std::unique_ptr<Cells> cells{new Cells{std::move(parts)}};
  TRY(cells->boot_id_, read_boot_id());
  TRY(cells->death_watch_,
      DeathWatch::start([raw = cells.get()](DeathWatch::Ticket ticket) { raw->on_death(ticket); }));
  return cells;
}

std::string Cells::socket_path(const std::string& id) const {
  return concat(parts_.socket_dir, "/", id, ".sock");
}

CellInfo Cells::info_of(const Entry& entry) const {
  return CellInfo{.id = entry.stored.id,
                  .running = entry.ticket != 0,
                  .guest_socket = socket_path(entry.stored.id)};
}

std::optional<Cells::Entry> Cells::find(const std::string& id) const {
  const std::lock_guard guard{mutex_};
  const auto found = table_.find(id);
  return found == table_.end() ? std::nullopt : std::optional{found->second};
}

void Cells::put(Entry entry) {
  const std::lock_guard guard{mutex_};
  table_.insert_or_assign(entry.stored.id, std::move(entry));
}

Result<Cells::Entry> Cells::require_running(const std::string& id) const {
  auto entry = find(id);
  if (!entry) {
    return fail(Code::kNotFound, concat("there is no cell ", id));
  }
  if (entry->ticket == 0) {
    return fail(Code::kFailedPrecondition, concat("cell ", id, " does not run"), "not_running");
  }
  return *std::move(entry);
}

Result<DeathWatch::Ticket> Cells::watch(const std::string& id, Fd pidfd) {
  DeathWatch::Ticket ticket = 0;
  {
    const std::lock_guard guard{mutex_};
    ticket = next_ticket_++;
    tickets_.emplace(ticket, id);
  }
  if (auto added = death_watch_->add(ticket, std::move(pidfd)); !added) {
    const std::lock_guard guard{mutex_};
    tickets_.erase(ticket);
    return fail(std::move(added).error());
  }
  return ticket;
}

Result<CellInfo> Cells::create(const CreateRequest& request) {
  TRY_DO(begin_mounting(request.mounts));
  auto made = make(request);
  end_mounting(request.mounts);
  return made;
}

Result<CellInfo> Cells::make(const CreateRequest& request) {
  const IdLocks::Guard guard = locks_.lock(request.id);
  const std::string snapshot_lock = snapshot_lock_id(request.from_snapshot);
  const IdLocks::Guard using_snapshot =
      request.takes_snapshot ? locks_.lock(snapshot_lock) : locks_.lock_shared(snapshot_lock);
  const std::optional<Entry> before = find(request.id);
  if (before && before->ticket != 0) {
    return fail(Code::kAlreadyExists, concat("cell ", request.id, " already runs"));
  }
  if (const std::lock_guard table{mutex_}; table_.size() >= kMaxCells) {
    return fail(Code::kResourceExhausted, concat("a node has at most ", kMaxCells, " cells"));
  }
  // What comes from a disk takes as long as that, and must not keep others waiting.
  std::optional<CreateTurns::Turn> turn;
  if (request.from_snapshot.empty() && !will_restore(request)) {
    turn.emplace(turns_, request.in_background);
  }
  // Not while it waits: nobody could remove a layer meanwhile.
  const std::shared_lock using_layers{layers_in_use_};
  TRY(runtime::CellSpec spec, check_create(request));
  TRY(spec.uid_base, parts_.uids.take());
  StoredCell stored{.id = request.id,
                    .uid_base = spec.uid_base,
                    .fresh_upper = !request.existing_upper,
                    .boot_id = boot_id_,
                    .layers = request.layers};
  for (const View& view : request.views) {
    if (view.kind == View::Kind::kLayer) {
      stored.layers.push_back(view.id);  // it must not go away meanwhile
    }
  }
  for (const Mount& mount : request.mounts) {
    (mount.read_only ? stored.read_volumes : stored.volumes).push_back(mount.volume);
  }
  CellInfo info;
  auto entry = build_with_memory(request, spec, stored, info);
  if (!entry) {
    if (const auto undone = undo_create(stored, before); !undone) {
      LOG_ERROR("a failed create could not be undone", {"cell", request.id},
                {"error", undone.error()});
    }
    return fail(std::move(entry).error());
  }
  const CellInfo made = info_of(*entry);
  info.id = made.id;
  info.running = made.running;
  info.guest_socket = made.guest_socket;
  put(*std::move(entry));
  return info;
}

// Where the pool cannot limit, hello has said so: the cell runs without a limit.
Result<> Cells::limit_disk(const std::string& id, std::uint64_t limit_bytes) {
  TRY(const layers::PoolStatus status, parts_.pool.status());
  return status.quota ? parts_.pool.set_upper_limit(id, limit_bytes) : Result<>{};
}

// Mounting an overlay writes to its work directory. On a full disk that fails and the kernel mounts
// it read-only without a word, so a disk gets some room until its cell runs.
Result<> Cells::widen_disk(const std::string& id, std::uint64_t limit_bytes) {
  TRY(const layers::PoolStatus status, parts_.pool.status());
  if (!status.quota || limit_bytes == 0) {
    return limit_disk(id, limit_bytes);
  }
  TRY(const layers::UpperUsage usage, parts_.pool.upper_usage(id));
  return limit_disk(id, std::max(limit_bytes, usage.used_bytes) + kMountRoomBytes);
}

Result<std::string> Cells::make_upper(const CreateRequest& request) {
  const std::uint64_t limit_bytes = request.limits.disk_bytes;
  if (request.from_snapshot.empty()) {
    return parts_.pool.create_upper(request.id, limit_bytes);
  }
  return request.takes_snapshot
             ? parts_.pool.take_snapshot(request.id, request.from_snapshot, limit_bytes)
             : parts_.pool.create_upper_from(request.id, request.from_snapshot, limit_bytes);
}

Result<Cells::Entry> Cells::build(const CreateRequest& request, runtime::CellSpec spec,
                                  StoredCell stored, CellInfo& info) {
  TRY_DO(parts_.records.put(stored));
  ATOLL_FAULT_POINT("node.create.recorded");
  if (stored.fresh_upper) {
    TRY(spec.upper_dir, make_upper(request));
  } else {
    TRY_DO(widen_disk(request.id, request.limits.disk_bytes));
  }
  if (!request.from_snapshot.empty() && !request.commit_later) {
    TRY_DO(parts_.pool.commit_uppers());
  }
  ATOLL_FAULT_POINT("node.create.disk");
  spec.guest_socket = socket_path(request.id);
  spec.egress = !is_passing_cell(request.id) || request.egress;
  TRY(runtime::Cell cell, parts_.runtime.create(spec));
  ATOLL_FAULT_POINT("node.create.cell");
  if (::lchown(spec.guest_socket.c_str(), parts_.socket_uid, parts_.socket_gid) != 0) {
    return fail_errno(concat("giving away ", spec.guest_socket));
  }
  ATOLL_FAULT_POINT("node.create.socket");
  if (!stored.fresh_upper) {
    TRY_DO(limit_disk(request.id, request.limits.disk_bytes));
  }
  stored.state = StoredCell::State::kRunning;
  stored.pid = cell.record.pid;
  stored.start_time = cell.record.start_time;
  TRY_DO(parts_.records.put(stored));
  ATOLL_FAULT_POINT("node.create.running");
  info.network = share(std::move(cell.network));
  std::shared_ptr<const ParkedSockets> kept;
  if (info.network != nullptr) {
    TRY(kept, ParkedSockets::park(*info.network, spec.uid_base));
  }
  TRY(const DeathWatch::Ticket ticket, watch(request.id, std::move(cell.pidfd)));
  return Entry{std::move(stored), ticket, std::move(kept)};
}

// Also right after a part that was never made: every step is idempotent. When processes might be
// left, the record and the id range stay, so nobody else gets them.
Result<> Cells::undo_create(const StoredCell& stored, const std::optional<Entry>& before) {
  TRY_DO(parts_.runtime.destroy({stored.id, 0, 0}));
  parts_.uids.give_back(stored.uid_base);
  ::unlink(socket_path(stored.id).c_str());
  if (stored.fresh_upper) {
    TRY_DO(parts_.pool.remove_upper(stored.id));
  }
  return before ? parts_.records.put(before->stored) : parts_.records.remove(stored.id);
}

// REQUIRES: the id's lock. Afterwards no process runs and the id range is free again.
Result<> Cells::end_processes(const Entry& entry, Disk disk) {
  if (entry.ticket != 0) {
    death_watch_->forget(entry.ticket);
    const std::lock_guard guard{mutex_};
    tickets_.erase(entry.ticket);
  }
  TRY_DO(disk == Disk::kGoes ? parts_.runtime.destroy_with_disk(runtime_record(entry.stored))
                             : parts_.runtime.destroy(runtime_record(entry.stored)));
  ATOLL_FAULT_POINT("node.end.processes");
  ::unlink(socket_path(entry.stored.id).c_str());
  if (entry.stored.uid_base != 0) {
    parts_.uids.give_back(entry.stored.uid_base);
  }
  StoredCell dead = entry.stored;
  dead.state = StoredCell::State::kDead;
  dead.pid = 0;
  dead.uid_base = 0;
  put(Entry{std::move(dead), 0});
  return {};
}

Result<> Cells::destroy(const DestroyRequest& request) {
  const IdLocks::Guard guard = locks_.lock(request.id);
  const std::optional<Entry> entry = find(request.id);
  TRY_DO(end_processes(entry ? *entry : Entry{.stored = {.id = request.id}},
                       request.keep_upper ? Disk::kStays : Disk::kGoes));
  ATOLL_FAULT_POINT("node.destroy.ended");
  if (!request.keep_upper || !request.keep_dump) {
    TRY_DO(parts_.dumps.remove(Dumps::of_cell(request.id)));
  }
  if (!request.keep_upper) {
    TRY_DO(parts_.pool.remove_upper(request.id));
  } else if (request.sync) {
    TRY_DO(sync_disks(entry ? entry->stored : StoredCell{.id = request.id}));
  }
  ATOLL_FAULT_POINT("node.destroy.disk");
  TRY_DO(parts_.records.remove(request.id));
  ATOLL_FAULT_POINT("node.destroy.forgotten");
  const std::lock_guard table{mutex_};
  table_.erase(request.id);
  return {};
}

// The record stays until the layer is there: a killed node leaves a dead cell for control to
// destroy.
Result<> Cells::commit(const std::string& id, const std::string& layer) {
  const IdLocks::Guard guard = locks_.lock(id);
  const std::optional<Entry> entry = find(id);
  if (!entry) {
    return fail(Code::kNotFound, concat("there is no cell ", id));
  }
  TRY_DO(end_processes(*entry));
  ATOLL_FAULT_POINT("node.commit.ended");
  TRY_DO(parts_.pool.commit_upper(id, layer));
  ATOLL_FAULT_POINT("node.commit.layer");
  TRY_DO(parts_.records.remove(id));
  const std::lock_guard table{mutex_};
  table_.erase(id);
  return {};
}

// Held while a layer goes, so that no create can begin to use it.
Result<> Cells::remove_layer(const std::string& layer) {
  const std::unique_lock removing{layers_in_use_};
  {
    const std::lock_guard table{mutex_};
    for (const auto& [id, entry] : table_) {
      if (std::ranges::find(entry.stored.layers, layer) != entry.stored.layers.end()) {
        return fail(Code::kFailedPrecondition, concat("cell ", id, " stands on layer ", layer),
                    "layer_in_use");
      }
    }
  }
  return parts_.pool.remove_layer(layer);
}

void Cells::on_death(DeathWatch::Ticket ticket) {
  std::string id;
  {
    const std::lock_guard guard{mutex_};
    const auto found = tickets_.find(ticket);
    if (found == tickets_.end()) {
      return;
    }
    id = found->second;
  }
  {
    const IdLocks::Guard guard = locks_.lock(id);
    const std::optional<Entry> entry = find(id);
    if (!entry || entry->ticket != ticket) {
      return;  // destroyed on purpose in the meantime
    }
    auto ended = end_processes(*entry);
    if (ended) {
      ended = parts_.records.put(find(id)->stored);
    }
    if (!ended) {
      LOG_ERROR("cleaning up after a dead cell", {"cell", id}, {"error", ended.error()});
    }
  }
  LOG_INFO("a cell died", {"cell", id});
  parts_.on_died(id);
}

std::vector<CellInfo> Cells::list(const std::string& after_id, std::size_t max_count) const {
  std::vector<CellInfo> infos;
  {
    const std::lock_guard guard{mutex_};
    for (auto entry = table_.upper_bound(after_id);
         entry != table_.end() && infos.size() < max_count; ++entry) {
      infos.push_back(info_of(entry->second));
    }
  }
  for (CellInfo& info : infos) {
    // One that dies meanwhile is not frozen, and its death is announced.
    info.frozen = info.running && parts_.runtime.capabilities().freeze &&
                  parts_.runtime.is_frozen(info.id).value_or(false);
    info.dumped = !info.running && parts_.dumps.has(Dumps::of_cell(info.id));
  }
  return infos;
}

Result<Usage> Cells::usage(const std::string& id) {
  const IdLocks::Guard guard = locks_.lock(id);
  const std::optional<Entry> entry = find(id);
  if (!entry) {
    return fail(Code::kNotFound, concat("there is no cell ", id));
  }
  Usage usage;
  if (entry->ticket != 0) {
    TRY(const runtime::Usage of_runtime, parts_.runtime.usage(id));
    usage.memory_bytes = of_runtime.memory_bytes;
    usage.memory_total_bytes = of_runtime.memory_total_bytes;
    usage.memory_peak_bytes = of_runtime.memory_peak_bytes;
    usage.cpu_nanoseconds = of_runtime.cpu_nanoseconds;
    usage.process_count = of_runtime.process_count;
  }
  const auto of_upper = parts_.pool.upper_usage(id);
  if (!of_upper && of_upper.error().code != Code::kUnimplemented) {
    return fail(of_upper.error());
  }
  usage.disk_bytes = of_upper ? of_upper->used_bytes : 0;  // not every pool keeps an account
  usage.disk_bytes += parts_.dumps.size(Dumps::of_cell(id));
  return usage;
}

Result<> Cells::set_limits(const std::string& id, const Limits& limits) {
  const IdLocks::Guard guard = locks_.lock(id);
  TRY_DO(require_running(id));
  TRY_DO(parts_.runtime.set_limits(id, runtime_limits(limits)));
  ATOLL_FAULT_POINT("node.limits.half");
  return limit_disk(id, limits.disk_bytes);
}

}  // namespace atl::node
