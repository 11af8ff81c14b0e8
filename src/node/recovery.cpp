// What the node does at its start about what an earlier one left.
//
// Every cell that exists has a record (it was written first). A recorded cell that still runs is
// adopted as it is; one that does not is cleaned out of the kernel and kept as dead, with its disk,
// for control to decide. A create that never finished is undone whole, as long as its record is to
// be believed: see must_be_undone(). Kernel objects without a record are removed. Disks without a
// record are left alone, because control knows them, but those of passing cells, which nobody
// continues.
#include <dirent.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"
#include "node/cells.h"

namespace atl::node {

Result<RecoverySummary> Cells::recover() {
  RecoverySummary summary;
  TRY_DO(recover_dumps());
  TRY(std::vector<StoredCell> stored, parts_.records.load());
  ATOLL_FAULT_POINT("node.recover.loaded");
  for (StoredCell& cell : stored) {
    const std::string id = cell.id;
    if (const auto recovered = recover_one(std::move(cell), summary); !recovered) {
      LOG_ERROR("recovering a cell", {"cell", id}, {"error", recovered.error()});
      ++summary.failed;
    }
  }
  ATOLL_FAULT_POINT("node.recover.records");
  TRY_DO(remove_unrecorded(summary));
  TRY_DO(remove_passing_uppers(summary));
  remove_stale_sockets();
  ATOLL_FAULT_POINT("node.recover.done");
  return summary;
}

Result<> Cells::recover_one(StoredCell stored, RecoverySummary& summary) {
  if (stored.state == StoredCell::State::kRunning) {
    if (adopt(stored)) {
      ++summary.adopted;
      return parts_.dumps.remove(Dumps::of_cell(stored.id));  // whole, but its cell never ended
    }
  }
  // A range whose processes could not be ended stays taken for good.
  const bool reserved = stored.uid_base != 0 && parts_.uids.take_exactly(stored.uid_base);
  TRY_DO(parts_.runtime.destroy({stored.id, stored.pid, stored.start_time}));
  if (reserved) {
    parts_.uids.give_back(stored.uid_base);
  }
  ATOLL_FAULT_POINT("node.recover.ended");
  if (must_be_undone(stored)) {
    TRY_DO(parts_.pool.remove_upper(stored.id));
    ++summary.undone;
    return parts_.records.remove(stored.id);
  }
  stored.state = StoredCell::State::kDead;
  stored.pid = 0;
  stored.uid_base = 0;
  TRY_DO(parts_.records.put(stored));
  put(Entry{std::move(stored), 0});
  ++summary.dead;
  return {};
}

// Records are not synced, disks that were promised to somebody are. So after a power cut `creating`
// may be all that is left of the record of one that ran long since and whose disk must stay:
// control knows whether anybody wants it. As long as the machine runs, a record is what was written
// last.
bool Cells::must_be_undone(const StoredCell& stored) {
  return stored.state == StoredCell::State::kCreating && stored.fresh_upper &&
         (stored.boot_id == boot_id_ || is_passing_cell(stored.id) ||
          !parts_.pool.has_upper(stored.id));
}

// False when the cell does not run any more, or must not: its ids may belong to somebody else, or
// nobody would notice its death. Then it holds no id range here, and the caller ends it.
bool Cells::adopt(const StoredCell& stored) {
  auto cell = parts_.runtime.adopt({stored.id, stored.pid, stored.start_time});
  if (!cell) {
    if (cell.error().code != Code::kNotFound) {
      LOG_ERROR("a cell cannot be adopted; ending it", {"cell", stored.id},
                {"error", cell.error()});
    }
    return false;
  }
  if (const auto taken = parts_.uids.take_exactly(stored.uid_base); !taken) {
    LOG_ERROR("a running cell's ids are not ours; ending it", {"cell", stored.id},
              {"error", taken.error()});
    return false;
  }
  // Under the lock, because the cell may die (and be looked for in the table) at any moment.
  const IdLocks::Guard guard = locks_.lock(stored.id);
  const auto ticket = watch(stored.id, std::move(cell->pidfd));
  if (!ticket) {
    LOG_ERROR("a running cell cannot be watched; ending it", {"cell", stored.id},
              {"error", ticket.error()});
    parts_.uids.give_back(stored.uid_base);
    return false;
  }
  put(Entry{stored, *ticket});
  return true;
}

Result<> Cells::remove_unrecorded(RecoverySummary& summary) {
  TRY(const std::vector<std::string> ids, parts_.runtime.list());
  for (const std::string& id : ids) {
    const IdLocks::Guard guard = locks_.lock(id);
    const std::optional<Entry> entry = find(id);
    if (entry && entry->ticket != 0) {
      continue;
    }
    if (const auto destroyed = parts_.runtime.destroy({id, 0, 0}); !destroyed) {
      LOG_ERROR("removing a cell without a record", {"cell", id}, {"error", destroyed.error()});
      ++summary.failed;
    } else {
      ++summary.unrecorded;
    }
  }
  return {};
}

Result<> Cells::remove_passing_uppers(RecoverySummary& summary) {
  TRY(const std::vector<std::string> ids, parts_.pool.list_uppers());
  for (const std::string& id : ids) {
    if (is_passing_cell(id) && !find(id)) {
      TRY_DO(parts_.pool.remove_upper(id));
      ++summary.unrecorded;
    }
  }
  return {};
}

void Cells::remove_stale_sockets() {
  const std::unique_ptr<DIR, decltype(&::closedir)> directory{::opendir(parts_.socket_dir.c_str()),
                                                              &::closedir};
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(".sock")) {
      continue;
    }
    const auto cell = find(std::string{name.substr(0, name.size() - 5)});
    if (!cell || cell->ticket == 0) {
      ::unlink(concat(parts_.socket_dir, "/", name).c_str());
    }
  }
}

}  // namespace atl::node
