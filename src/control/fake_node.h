// A node for tests: cells are entries of a map, and every call can fail before or after its effect.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/strings.h"
#include "base/task.h"
#include "node/client.h"

namespace atl::control {

class FakeNode final : public node::Node {
 public:
  enum class Fault : std::uint8_t {
    kNone,
    kUnreached,   // the node never saw the request
    kAnswerLost,  // it did what was asked, but the answer got lost
    kRefused,     // it answered with an error
  };
  struct Cell {
    bool running = false;
    bool frozen = false;
    bool upper = false;
    bool dumped = false;
    std::string guest_socket;
  };

  std::set<std::string> uncommitted;  // disks that a power cut would take
  int commits = 0;
  // Asked before each call; empty: no faults.
  std::function<Fault(std::string_view operation)> fault;
  // How long a call takes; empty: it does not suspend.
  std::function<Duration()> latency;
  // Operations that take longer, once the node has begun with them.
  std::map<std::string, Duration, std::less<>> slow;
  std::function<std::string(const std::string& id)> guest_socket_of;
  std::map<std::string, Cell> cells;
  std::map<std::string, node::CreateRequest> requests;  // with the limits set since
  std::map<std::string, node::Usage> usages;
  std::map<std::string, int> asked_usage;  // how often
  std::vector<node::TemplateInfo> templates{{"default", {"layer-1"}}};
  std::set<std::string> snapshots;
  std::set<std::string> volumes;
  std::vector<node::DetachRequest> detached;
  std::vector<std::string> restored_volumes;
  std::vector<std::string> restored;  // cells whose disk was exchanged, in order
  std::size_t creates = 0;
  std::size_t synced = 0;  // cells that ended with their disk made durable
  std::size_t dumping = 0;
  std::size_t most_dumping = 0;
  bool has_freezer = true;
  bool has_dumps = true;
  bool has_egress = false;
  std::size_t networks_opened = 0;  // beside those that came with a create
  std::string undumpable;           // why not; empty: everything can be dumped

  void kill(const std::string& id) {
    cells[id].running = cells[id].frozen = false;
    events_.push_back({node::Event::Kind::kCellDied, id});
    news_.set();
  }
  // The connection breaks; with `restart` the cells die with the node.
  void lose(bool restart) {
    if (restart) {
      for (auto& [id, cell] : cells) {
        cell.running = cell.frozen = false;
      }
    }
    events_.clear();
    lost_ = true;
    news_.set();
  }

  Task<node::HelloAnswer> hello() override {
    CO_TRY_DO(co_await travel());
    CO_TRY_DO(judge_before("hello"));
    node::HelloAnswer answer;
    answer.runtime = "fake";
    answer.disk_quota = true;
    answer.egress = has_egress;
    answer.egress_reason = has_egress ? "" : "a fake has none";
    answer.memory_dump = has_dumps;
    answer.memory_dump_reason = has_dumps ? "" : "no criu";
    answer.templates = templates;
    answer.pool_total_bytes = 100ULL << 30;
    co_return std::move(answer);
  }

  Task<node::CellInfo> create(node::CreateRequest request) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("create"));
    CO_TRY_DO(co_await take_time("create"));
    Cell& cell = cells[request.id];
    const bool begun = request.from_snapshot.empty() || snapshots.contains(request.from_snapshot);
    const bool has_volumes = std::ranges::all_of(request.mounts, [this](const node::Mount& mount) {
      return volumes.contains(mount.volume);
    });
    if (cell.running || cell.upper != request.existing_upper || !begun || !has_volumes) {
      const bool running = cell.running;
      if (!running && !cell.upper) {
        cells.erase(request.id);
      }
      co_return fail(running ? Code::kAlreadyExists : Code::kNotFound, "no such upper, or taken");
    }
    ++creates;
    cell.running = cell.upper = true;
    cell.guest_socket = guest_socket_of ? guest_socket_of(request.id) : "/nowhere";
    requests[request.id] = request;
    if (request.commit_later) {
      uncommitted.insert(request.id);
    }
    if (request.takes_snapshot) {
      snapshots.erase(request.from_snapshot);
    }
    node::CellInfo info{.id = request.id,
                        .running = true,
                        .guest_socket = cell.guest_socket,
                        .restored = cell.dumped && request.restore_memory};
    cell.dumped = false;
    if (has_egress) {
      info.network = std::make_shared<node::NetworkSockets>(make_network());
    }
    CO_TRY_DO(co_await travel());
    CO_TRY_DO(judge_after(answers));
    co_return std::move(info);
  }
  Task<node::NetworkSockets> open_network(std::string id) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("open_network"));
    const auto found = cells.find(id);
    if (found == cells.end() || !found->second.running) {
      co_return fail(Code::kNotFound, "no such cell");
    }
    ++networks_opened;
    CO_TRY_DO(judge_after(answers));
    co_return make_network();
  }

  Task<> destroy(node::DestroyRequest request) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("destroy"));
    const auto found = cells.find(request.id);
    if (found != cells.end() && request.keep_upper && found->second.upper) {
      found->second.running = found->second.frozen = false;
      found->second.dumped = found->second.dumped && request.keep_dump;
    } else if (found != cells.end()) {
      cells.erase(found);
    }
    synced += request.sync ? 1 : 0;
    CO_TRY_DO(co_await travel());
    co_return judge_after(answers);
  }

  Task<std::vector<node::CellInfo>> list() override {
    CO_TRY_DO(co_await travel());
    CO_TRY_DO(judge_before("list"));
    std::vector<node::CellInfo> infos;
    for (const auto& [id, cell] : cells) {
      infos.push_back({id, cell.running, cell.frozen, cell.guest_socket, cell.dumped});
    }
    co_return std::move(infos);
  }

  Task<node::Usage> usage(std::string id) override {
    CO_TRY_DO(co_await travel());
    CO_TRY_DO(judge_before("usage"));
    ++asked_usage[id];
    co_return usages.contains(id) ? usages.at(id) : node::Usage{};
  }
  Task<> set_limits(std::string id, node::Limits limits) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("set_limits"));
    const auto found = requests.find(id);
    if (found == requests.end() || !cells[id].running) {
      co_return fail(Code::kNotFound, "no such cell");
    }
    found->second.limits = limits;
    co_return judge_after(answers);
  }
  Task<> freeze(std::string id) override { return set_frozen(std::move(id), "freeze", true); }
  Task<> thaw(std::string id) override { return set_frozen(std::move(id), "thaw", false); }

  Task<> commit_disks() override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("commit_disks"));
    uncommitted.clear();
    ++commits;
    CO_TRY_DO(judge_after(answers));
    co_return ok();
  }
  Task<node::DumpAnswer> dump(std::string id) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("dump"));
    const auto found = cells.find(id);
    if (found == cells.end() || !found->second.running) {
      co_return fail(Code::kNotFound, "no such cell");
    }
    if (!undumpable.empty()) {
      co_return fail(Code::kFailedPrecondition, undumpable, "not_dumpable");
    }
    most_dumping = std::max(most_dumping, ++dumping);
    auto taken = co_await take_time("dump");
    --dumping;
    CO_TRY_DO(std::move(taken));
    found->second.running = found->second.frozen = false;
    found->second.dumped = true;
    CO_TRY_DO(co_await travel());
    CO_TRY_DO(judge_after(answers));
    co_return node::DumpAnswer{1 << 20};
  }

  Task<node::SnapshotAnswer> snapshot(node::SnapshotRequest request) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("snapshot"));
    if (!cells.contains(request.id)) {
      co_return fail(Code::kNotFound, "no such cell");
    }
    snapshots.insert(request.snapshot);
    CO_TRY_DO(co_await travel());
    CO_TRY_DO(judge_after(answers));
    co_return node::SnapshotAnswer{1000};
  }
  Task<> restore(node::SnapshotRequest request) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("restore"));
    if (!snapshots.contains(request.snapshot) || cells[request.id].running) {
      co_return fail(Code::kFailedPrecondition, "no such snapshot, or the cell runs");
    }
    cells[request.id].upper = true;
    restored.push_back(request.id);
    co_return judge_after(answers);
  }
  Task<> remove_snapshot(std::string snapshot) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("remove_snapshot"));
    snapshots.erase(snapshot);
    co_return judge_after(answers);
  }
  Task<std::vector<std::string>> list_snapshots() override {
    CO_TRY_DO(co_await travel());
    CO_TRY_DO(judge_before("list_snapshots"));
    co_return std::vector<std::string>(snapshots.begin(), snapshots.end());
  }

  Task<> create_volume(node::VolumeRequest request) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("create_volume"));
    if (!request.snapshot.empty() && !snapshots.contains(request.snapshot)) {
      co_return fail(Code::kNotFound, "no such snapshot");
    }
    if (!volumes.insert(request.volume).second) {
      co_return fail(Code::kAlreadyExists, "the volume exists");
    }
    CO_TRY_DO(co_await travel());
    co_return judge_after(answers);
  }
  Task<> remove_volume(std::string volume) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("remove_volume"));
    volumes.erase(volume);
    co_return judge_after(answers);
  }
  Task<std::vector<std::string>> list_volumes() override {
    CO_TRY_DO(co_await travel());
    CO_TRY_DO(judge_before("list_volumes"));
    co_return std::vector<std::string>(volumes.begin(), volumes.end());
  }
  Task<node::Usage> volume_usage(std::string volume) override {
    CO_TRY_DO(co_await travel());
    CO_TRY_DO(judge_before("volume_usage"));
    if (!volumes.contains(volume)) {
      co_return fail(Code::kNotFound, "no such volume");
    }
    co_return node::Usage{.disk_bytes = 4096};
  }
  Task<> snapshot_volume(node::VolumeRequest request) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("snapshot_volume"));
    if (!volumes.contains(request.volume)) {
      co_return fail(Code::kNotFound, "no such volume");
    }
    snapshots.insert(request.snapshot);
    CO_TRY_DO(co_await travel());
    co_return judge_after(answers);
  }
  Task<> restore_volume(node::VolumeRequest request) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("restore_volume"));
    if (!volumes.contains(request.volume) || !snapshots.contains(request.snapshot)) {
      co_return fail(Code::kNotFound, "no such volume or snapshot");
    }
    restored_volumes.push_back(request.volume);
    co_return judge_after(answers);
  }
  Task<> detach_volume(node::DetachRequest request) override {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before("detach_volume"));
    if (!cells.contains(request.id) || !cells[request.id].running) {
      co_return fail(Code::kNotFound, "no such cell");
    }
    detached.push_back(request);
    co_return judge_after(answers);
  }

  Task<node::Event> next_event() override {
    while (events_.empty() && !lost_) {
      news_.clear();
      CO_TRY_DO(co_await news_.wait());
    }
    if (lost_) {
      lost_ = false;
      co_return fail(Code::kUnavailable, "the node is gone");
    }
    node::Event event = events_.front();
    events_.pop_front();
    co_return event;
  }

 private:
  // Files stand for sockets.
  static node::NetworkSockets make_network() {
    return {Fd{::memfd_create("tcp", MFD_CLOEXEC)}, Fd{::memfd_create("udp", MFD_CLOEXEC)},
            Fd{::memfd_create("dns", MFD_CLOEXEC)}};
  }

  Task<> set_frozen(std::string id, std::string_view operation, bool frozen) {
    CO_TRY_DO(co_await travel());
    CO_TRY(const bool answers, judge_before(operation));
    if (!has_freezer) {
      co_return fail(Code::kUnimplemented, "no freezer");
    }
    const auto found = cells.find(id);
    if (found == cells.end() || !found->second.running) {
      co_return fail(Code::kNotFound, "no such cell");
    }
    found->second.frozen = frozen;
    CO_TRY_DO(co_await travel());
    co_return judge_after(answers);
  }
  Task<> travel() {
    if (!latency) {
      co_return ok();
    }
    co_return co_await sleep_for(latency());
  }
  Task<> take_time(std::string_view operation) {
    const auto found = slow.find(operation);
    if (found == slow.end()) {
      co_return ok();
    }
    co_return co_await sleep_for(found->second);
  }
  // Whether the answer will arrive, or why the request did not.
  Result<bool> judge_before(std::string_view operation) {
    switch (fault ? fault(operation) : Fault::kNone) {
      case Fault::kNone:
        return true;
      case Fault::kUnreached:
        return fail(Code::kUnavailable, concat(operation, ": the node is not there"));
      case Fault::kAnswerLost:
        return false;
      case Fault::kRefused:
        return fail(Code::kInternal, concat(operation, ": the node refused"));
    }
    return true;
  }
  static Result<> judge_after(bool answers) {
    return answers ? Result<>{} : Result<>{fail(Code::kUnavailable, "the answer was lost")};
  }

  std::deque<node::Event> events_;
  Event news_;
  bool lost_ = false;
};

}  // namespace atl::control
