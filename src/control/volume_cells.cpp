#include "control/volume_cells.h"

#include <algorithm>

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

// Inside the cell; its guest never sees it, because it is its root.
constexpr const char* kMountPoint = "/volume";

std::string cell_id(std::string_view volume_id) {
  return concat(node::kFilesCellPrefix, volume_id.substr(node::kVolumePrefix.size()));
}

}  // namespace

// Somebody works with the files.
class VolumeCells::Use {
 public:
  explicit Use(CellPointer cell, Loop& loop) : cell_(std::move(cell)), loop_(loop) {
    ++cell_->uses;
  }
  ~Use() {
    --cell_->uses;
    cell_->last_used = loop_.now();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  CellPointer cell_;
  Loop& loop_;
};

// Being started or ended, from its making until it is destroyed.
class VolumeCells::Busy {
 public:
  // REQUIRES: not busy.
  explicit Busy(CellPointer cell) : cell_(std::move(cell)) {
    CHECK(!cell_->busy);
    cell_->busy = true;
  }
  ~Busy() {
    cell_->busy = false;
    cell_->released.set();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  CellPointer cell_;
};

class VolumeCells::LeasedFiles final : public GuestFiles {
 public:
  LeasedFiles(GuestClient client, std::unique_ptr<Use> use)
      : GuestFiles(std::move(client)), use_(std::move(use)) {}

  Task<> sync(std::string path, bool tree) override {
    return client_.sync_file({.path = std::move(path), .user = "owner:0:0", .tree = tree});
  }

 private:
  std::unique_ptr<Use> use_;
};

Task<std::unique_ptr<Files>> VolumeCells::open(store::Volume volume) {
  TaskContext& here = co_await current_context();
  CellPointer& known = cells_[volume.id];
  if (known == nullptr) {
    known = std::make_shared<Cell>();
    known->id = cell_id(volume.id);
    known->team_id = volume.team_id;
  }
  const CellPointer cell = known;
  auto use = std::make_unique<Use>(cell, *here.loop);
  // Once begun, a start is not given up with its caller: others wait for it.
  CO_TRY(auto client, co_await shielded(ready_client(cell, volume.id)));
  co_return std::unique_ptr<Files>{
      std::make_unique<LeasedFiles>(std::move(client), std::move(use))};
}

Task<> VolumeCells::wait_until_free(CellPointer cell) {
  while (cell->busy) {
    cell->released.clear();
    CO_TRY_DO(co_await cell->released.wait());
  }
  co_return ok();
}

Task<GuestClient> VolumeCells::ready_client(CellPointer cell, std::string volume_id) {
  CO_TRY_DO(co_await wait_until_free(cell));
  if (!cell->guest_socket.empty()) {
    const std::uint64_t start_asked = cell->starts;
    GuestClient client{*reactor_, cell->guest_socket};
    if (co_await with_deadline(kFileCellPing, client.ping())) {
      co_return client;
    }
    CO_TRY_DO(co_await wait_until_free(cell));
    if (!cell->guest_socket.empty() && cell->starts != start_asked) {
      co_return GuestClient{*reactor_, cell->guest_socket};  // somebody else has begun anew
    }
  }
  CO_TRY_DO(co_await start(cell, std::move(volume_id)));
  co_return GuestClient{*reactor_, cell->guest_socket};
}

// REQUIRES: it is not busy.
Task<> VolumeCells::start(CellPointer cell, std::string volume_id) {
  const Busy busy{cell};
  CO_TRY_DO(co_await destroy(cell));  // one that does not answer, or that somebody left
  cell->may_exist = true;             // counts from now on
  if (auto room = co_await make_room(cell->team_id); !room) {
    cell->may_exist = false;
    co_return std::move(room);
  }
  co_return co_await create(cell, std::move(volume_id));
}

Task<> VolumeCells::create(CellPointer cell, std::string volume_id) {
  sandboxes_.adopt_cell(cell->id);
  node::CreateRequest request{.id = cell->id,
                              .hostname = cell->id,
                              .layers = {node::kEmptyLayer},
                              .limits = {.memory_bytes = kFileCellMemoryBytes,
                                         .cpu_millis = 1000,
                                         .process_count = kFileCellProcesses,
                                         .disk_bytes = kFileCellDiskBytes},
                              .mounts = {{std::move(volume_id), kMountPoint, false}},
                              .mount_is_root = true};
  auto made = co_await with_deadline(kNodeTimeout, node_.create(std::move(request)));
  if (!made) {
    co_return fail(std::move(made).error().note("starting to serve the files of the volume"));
  }
  ++cell->starts;
  cell->guest_socket = made->guest_socket;
  LOG_INFO("serving the files of a volume", {"cell", cell->id});
  co_return ok();
}

Task<> VolumeCells::end(CellPointer cell) {
  CO_TRY_DO(co_await wait_until_free(cell));
  const Busy busy{cell};
  co_return co_await destroy(cell);
}

// REQUIRES: it is busy. One that could not be destroyed is tried again when it is idle.
Task<> VolumeCells::destroy(CellPointer cell) {
  cell->guest_socket.clear();
  auto ended = co_await with_deadline(kNodeTimeout, node_.destroy({.id = cell->id}));
  if (!ended && ended.error().code != Code::kNotFound) {
    co_return fail(std::move(ended).error());
  }
  cell->may_exist = false;
  sandboxes_.release_cell(cell->id);
  co_return ok();
}

// For one more of the team, which is counted already.
Task<> VolumeCells::make_room(std::string team_id) {
  for (;;) {
    std::size_t count = 0;
    std::size_t of_team = 0;
    for (const auto& [volume, cell] : cells_) {
      count += cell->may_exist ? 1 : 0;
      of_team += cell->may_exist && cell->team_id == team_id ? 1 : 0;
    }
    const bool only_own = of_team > kMaxFileCellsPerTeam;
    if (!only_own && count <= kMaxFileCells) {
      co_return ok();
    }
    CellPointer oldest;
    for (const auto& [volume, cell] : cells_) {
      if (!cell->guest_socket.empty() && !cell->busy && cell->uses == 0 &&
          (!only_own || cell->team_id == team_id) &&
          (oldest == nullptr || cell->last_used < oldest->last_used)) {
        oldest = cell;
      }
    }
    if (oldest == nullptr) {
      co_return fail(Code::kResourceExhausted,
                     concat("the files of ", (only_own ? of_team : count) - 1,
                            " volumes are in use; try again later"));
    }
    CO_TRY_DO(co_await end(oldest));
  }
}

Task<> VolumeCells::close(std::string volume_id) {
  const auto found = cells_.find(volume_id);
  if (found == cells_.end()) {
    co_return ok();
  }
  const CellPointer cell = found->second;
  co_return co_await shielded(end(cell));
}

Task<> VolumeCells::end_idle() {
  const Instant now = (co_await current_context()).loop->now();
  std::vector<std::pair<std::string, CellPointer>> idle;
  for (const auto& [volume, cell] : cells_) {
    if (!cell->busy && cell->uses == 0 && now - cell->last_used >= kFileCellIdle) {
      idle.emplace_back(volume, cell);
    }
  }
  for (const auto& [volume, cell] : idle) {
    if (cell->busy || cell->uses > 0) {
      continue;  // somebody came meanwhile
    }
    if (cell->may_exist) {
      if (auto ended = co_await shielded(end(cell)); !ended) {
        LOG_WARN("a cell for files stays for now", {"cell", cell->id}, {"error", ended.error()});
        continue;
      }
    }
    if (!cell->busy && cell->uses == 0 && !cell->may_exist) {
      cells_.erase(volume);
    }
  }
  co_return ok();
}

Task<> VolumeCells::run() {
  for (;;) {
    if (auto waited = co_await sleep_for(kFileCellIdle / 4); !waited) {
      co_return ok();
    }
    CO_TRY_DO(co_await end_idle());
  }
}

}  // namespace atl::control
