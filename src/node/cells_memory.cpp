// Cells whose memory goes to disk, and comes back.
//
// A dump is made while the cell stands still, and its processes end only when it is whole, so a
// failure or a crash leaves the cell as it was, frozen. It belongs to the disk as that is then:
// whatever starts the cell without it, or changes its disk, removes it first.
#include <fcntl.h>
#include <linux/random.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/fault_point.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strings.h"
#include "node/cells.h"
#include "node/limits.h"

namespace atl::node {

namespace {

// Programs draw random numbers ahead and keep them in memory (getrandom of the vDSO does): what
// goes on more than once must draw anew. The kernel tells them by the number of its own seed.
Result<> renew_randomness() {
  const Fd random{::open("/dev/urandom", O_RDONLY | O_CLOEXEC)};
  if (!random || ::ioctl(random.get(), RNDRESEEDCRNG) != 0) {
    return fail_errno("renewing the randomness of a fork");
  }
  return {};
}

}  // namespace

// A dump is as large as the memory it is made from.
Result<> Cells::check_room_for(const std::string& id) {
  TRY(const runtime::Usage usage, parts_.runtime.usage(id));
  TRY(const layers::PoolStatus status, parts_.pool.status());
  if (status.free_bytes < usage.memory_bytes + kMinPoolReserveBytes) {
    return fail(Code::kResourceExhausted,
                concat("the storage of this node has no room for ", usage.memory_bytes >> 20,
                       "Mi of memory"),
                "disk_full");
  }
  return {};
}

Result<std::uint64_t> Cells::dump_to(const Entry& entry, const std::string& name,
                                     std::chrono::seconds time_limit) {
  if (is_passing_cell(entry.stored.id)) {
    return fail(Code::kFailedPrecondition, "a cell that only passes is not dumped", "not_dumpable");
  }
  TRY_DO(check_room_for(entry.stored.id));
  // One that is left of an earlier try is older than what the cell does from here on.
  TRY_DO(parts_.dumps.remove(Dumps::of_cell(entry.stored.id)));
  TRY(const std::string directory, parts_.dumps.begin(name));
  auto bytes =
      parts_.runtime.dump({.record = {entry.stored.id, entry.stored.pid, entry.stored.start_time},
                           .directory = directory,
                           .guest_socket = socket_path(entry.stored.id),
                           .time_limit = time_limit == kAnyTime ? kDumpTime : time_limit,
                           .time_for_memory = time_limit == kAnyTime});
  ATOLL_FAULT_POINT("node.dump.written");
  if (bytes) {
    if (auto finished = parts_.dumps.finish(name); !finished) {
      bytes = fail(std::move(finished).error());
    }
  }
  if (!bytes) {
    parts_.dumps.abandon(name);
  }
  if (!bytes && bytes.error().reason == runtime::kDumpCutShort) {
    LOG_ERROR("a dump was cut short; its cell ends and starts from its disk",
              {"cell", entry.stored.id}, {"error", bytes.error()});
    TRY_DO(end_processes(entry));
    TRY_DO(parts_.records.put(find(entry.stored.id)->stored));
    parts_.on_died(entry.stored.id);
  }
  return bytes;
}

Result<DumpAnswer> Cells::dump(const std::string& id) {
  const IdLocks::Guard guard = locks_.lock(id);
  TRY(const Entry entry, require_running(id));
  return dump_and_end(entry, kAnyTime);
}

// REQUIRES: the id's lock.
Result<DumpAnswer> Cells::dump_and_end(const Entry& entry, std::chrono::seconds time_limit) {
  const std::string& id = entry.stored.id;
  TRY(const std::uint64_t bytes, dump_to(entry, Dumps::of_cell(id), time_limit));
  ATOLL_FAULT_POINT("node.dump.whole");
  TRY_DO(end_processes(entry));
  TRY_DO(parts_.records.put(find(id)->stored));
  LOG_INFO("a cell's memory is on disk", {"cell", id}, {"mib", bytes >> 20});
  return DumpAnswer{bytes};
}

// REQUIRES: the id's lock. The disk and the memory of one moment; a cell that moved moves on.
Result<SnapshotAnswer> Cells::snapshot_with_memory(const SnapshotRequest& request) {
  const std::optional<Entry> entry = find(request.id);
  const std::string name = Dumps::of_snapshot(request.snapshot);
  const bool running = entry && entry->ticket != 0;
  bool moved = false;
  if (running) {
    TRY(const bool frozen, parts_.runtime.is_frozen(request.id));
    moved = !frozen;
    TRY_DO(parts_.pool.flush_upper(request.id));
  }
  const auto begin = std::chrono::steady_clock::now();
  Result<> taken;
  if (running) {
    if (auto dumped = dump_to(*entry, name, kAnyTime); !dumped) {
      moved = moved && dumped.error().reason != runtime::kDumpCutShort;  // else it has ended
      taken = fail(std::move(dumped).error());
    }
  } else {
    taken = parts_.dumps.copy(Dumps::of_cell(request.id), name);
  }
  if (taken) {
    taken = parts_.pool.snapshot_upper(request.id, request.snapshot, {request.passing});
  }
  if (moved) {
    TRY_DO(parts_.runtime.thaw(request.id));
  }
  if (!taken) {
    TRY_DO(parts_.dumps.remove(name));
    return fail(std::move(taken).error());
  }
  const auto stopped = std::chrono::steady_clock::now() - begin;
  return SnapshotAnswer{static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(stopped).count())};
}

Result<> Cells::remove_snapshot(const std::string& snapshot) {
  const IdLocks::Guard guard = locks_.lock(snapshot_lock_id(snapshot));
  TRY_DO(parts_.dumps.remove(Dumps::of_snapshot(snapshot)));
  return parts_.pool.remove_snapshot(snapshot);
}

// REQUIRES: the id's lock. On a disk that is there, with the processes that were dumped.
bool Cells::will_restore(const CreateRequest& request) const {
  return request.restore_memory && parts_.dumps.has(Dumps::of_cell(request.id));
}

// The dump a create begins with; empty when there is none.
Result<std::string> Cells::choose_dump(const CreateRequest& request) {
  if (!request.existing_upper) {
    if (!request.restore_memory) {
      return std::string{};
    }
    const std::string name = Dumps::of_snapshot(request.from_snapshot);
    if (!parts_.dumps.has(name)) {
      return fail(Code::kNotFound, "the snapshot has no memory", "snapshot_without_memory");
    }
    return name;
  }
  const std::string own = Dumps::of_cell(request.id);
  if (will_restore(request)) {
    return own;
  }
  TRY_DO(parts_.dumps.remove(own));
  return std::string{};
}

// REQUIRES: the id's lock. Memory that will never come back, or has begun to run, is given up, and
// the sandbox starts from its disk. Any other failure keeps it: the next try may have more luck.
Result<Cells::Entry> Cells::build_with_memory(const CreateRequest& request,
                                              const runtime::CellSpec& spec,
                                              const StoredCell& stored, CellInfo& info) {
  TRY(const std::string dump, choose_dump(request));
  if (dump.empty()) {
    return build(request, spec, stored, info);
  }
  runtime::CellSpec restored = spec;
  restored.from_dump = parts_.dumps.path(dump);
  const bool own = request.existing_upper;
  bool used = false;
  if (own) {
    restored.before_resume = [this, dump, &used] {
      used = true;
      return parts_.dumps.use_up(dump);
    };
  } else {
    restored.before_resume = [] { return renew_randomness(); };
  }
  auto entry = build(request, std::move(restored), stored, info);
  info.restored = entry.has_value();
  if (entry || !own) {
    return own ? finish_restore(dump, std::move(entry)) : std::move(entry);
  }
  info.reason = entry.error().message;
  const bool lost = used || entry.error().reason == runtime::kDumpRefused ||
                    entry.error().code == Code::kDataLoss;
  LOG_WARN("the memory of a cell does not come back", {"cell", request.id}, {"lost", lost},
           {"error", entry.error()});
  if (!lost) {
    return fail(Code::kUnavailable,
                concat("its memory does not come back for now: ", entry.error().message),
                "memory_unavailable");
  }
  TRY_DO(parts_.runtime.destroy({request.id, 0, 0}));
  TRY_DO(parts_.dumps.remove(dump));
  return build(request, spec, stored, info);
}

Result<Cells::Entry> Cells::finish_restore(const std::string& dump, Result<Entry> entry) {
  if (const auto removed = parts_.dumps.remove(dump); !removed) {
    LOG_WARN("a used dump stays until the next start", {"dump", dump}, {"error", removed.error()});
  }
  return entry;
}

Result<> Cells::recover_dumps() {
  TRY_DO(parts_.dumps.collect());
  TRY(const std::vector<std::string> names, parts_.dumps.list());
  for (const std::string& name : names) {
    const auto dash = name.find('-');
    const std::string owner = name.substr(dash + 1);
    const bool owned =
        name.starts_with("cell-") ? parts_.pool.has_upper(owner) : parts_.pool.has_snapshot(owner);
    if (!owned) {
      TRY_DO(parts_.dumps.remove(name));
    }
  }
  return {};
}

// True when it has ended, with or without its memory.
bool Cells::stop_one(const std::string& id, std::chrono::seconds time_left) {
  const bool passing = is_passing_cell(id);
  if (!passing && time_left > kStopDumpGrace &&
      parts_.runtime.capabilities().memory_dump.possible) {
    const IdLocks::Guard guard = locks_.lock(id);
    const std::optional<Entry> entry = find(id);
    if (entry && entry->ticket != 0) {
      const auto dumped = dump_and_end(*entry, time_left);
      if (dumped) {
        return true;  // its record stays, so the next start knows
      }
      LOG_WARN("a cell stops without its memory", {"cell", id}, {"error", dumped.error()});
    }
  }
  const auto ended = destroy({.id = id, .keep_upper = !passing, .keep_dump = true});
  if (!ended) {
    LOG_ERROR("stopping a cell", {"cell", id}, {"error", ended.error()});
  }
  return ended.has_value();
}

Result<> Cells::stop() {
  std::vector<std::string> ids;
  {
    const std::lock_guard guard{mutex_};
    for (const auto& [id, entry] : table_) {
      ids.push_back(id);
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + kStopDumpTime + kStopDumpGrace;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> failed{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(kStopThreads, ids.size()); ++i) {
      threads.emplace_back([&] {
        for (std::size_t at = next++; at < ids.size(); at = next++) {
          const auto left =
              std::chrono::floor<std::chrono::seconds>(deadline - std::chrono::steady_clock::now());
          failed += stop_one(ids[at], left) ? 0 : 1;
        }
      });
    }
  }
  if (failed > 0) {
    return fail(Code::kInternal, concat(failed.load(), " cells could not be stopped"));
  }
  return {};
}

}  // namespace atl::node
