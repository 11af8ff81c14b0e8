// A Runtime without a kernel: cells are entries in a map whose "processes" are event descriptors.
// It outlives the objects under test, like cells outlive the node.
#pragma once

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "base/strings.h"
#include "runtime/room.h"

namespace atl::node::testing {

class FakeRuntime final : public runtime::Runtime {
 public:
  const runtime::Capabilities& capabilities() const override { return capabilities_; }

  Result<runtime::Cell> create(const runtime::CellSpec& spec) override {
    std::unique_lock lock{mutex_};
    ++creating_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_.contains(spec.id); });
    --creating_;
    if (failing_.contains(spec.id)) {
      return fail(Code::kInternal, "the fake was told to fail");
    }
    ::unlink(spec.guest_socket.c_str());
    CHECK(spec.guest_socket.empty() || ::mknod(spec.guest_socket.c_str(), S_IFSOCK | 0600, 0) == 0);
    Body body;
    body.spec = spec;
    body.record = {spec.id, next_pid_++, 7};
    body.process = Fd{::eventfd(0, EFD_CLOEXEC)};
    TRY(Fd copy, body.process.duplicate());
    runtime::Cell cell{body.record, std::move(copy)};
    if (spec.egress && networks_) {
      cell.network = make_network();
    }
    CHECK(cells_.emplace(spec.id, std::move(body)).second);
    return cell;
  }
  Result<runtime::Cell> adopt(const runtime::CellRecord& record) override {
    const std::lock_guard guard{mutex_};
    const auto found = cells_.find(record.id);
    if (found == cells_.end() || found->second.dead || found->second.record.pid != record.pid ||
        found->second.record.start_time != record.start_time) {
      return fail(Code::kNotFound, "it does not run");
    }
    if (unwatchable_.contains(record.id)) {
      return runtime::Cell{record, Fd{::memfd_create("not a process", MFD_CLOEXEC)}};
    }
    TRY(Fd copy, found->second.process.duplicate());
    return runtime::Cell{record, std::move(copy)};
  }
  Result<> destroy(const runtime::CellRecord& record) override {
    const std::lock_guard guard{mutex_};
    if (stuck_.contains(record.id)) {
      return fail(Code::kDeadlineExceeded, "it does not die");
    }
    cells_.erase(record.id);
    return {};
  }
  Result<> set_limits(const std::string& id, const runtime::Limits& limits) override {
    const std::lock_guard guard{mutex_};
    TRY(Body * body, find(id));
    body->spec.limits = limits;
    return {};
  }
  Result<runtime::Usage> usage(const std::string&) override {
    return runtime::Usage{.memory_bytes = 11, .cpu_nanoseconds = 12, .process_count = 13};
  }
  Result<> freeze(const std::string& id) override { return set_frozen(id, true); }
  Result<> thaw(const std::string& id) override { return set_frozen(id, false); }
  Result<bool> is_frozen(const std::string& id) override {
    const std::lock_guard guard{mutex_};
    TRY(const Body* body, find(id));
    return body->frozen;
  }
  Result<> detach(const runtime::CellRecord& record, const runtime::VolumeMount& mount) override {
    const std::lock_guard guard{mutex_};
    TRY(Body * body, find(record.id));
    const auto gone = std::erase_if(body->spec.mounts, [&](const runtime::VolumeMount& each) {
      return each.target == mount.target;
    });
    return gone > 0 ? Result<>{} : Result<>{fail(Code::kNotFound, "it is not mounted")};
  }
  Result<runtime::NetworkSockets> open_network(const runtime::CellRecord& record) override {
    TRY_DO(adopt(record));
    ++networks_opened_;
    return make_network();
  }
  Result<Fd> open_socket(const runtime::CellRecord& record, runtime::SocketType type,
                         runtime::SocketFamily) override {
    TRY_DO(adopt(record));
    return Fd{
        ::memfd_create(type == runtime::SocketType::kStream ? "stream" : "datagram", MFD_CLOEXEC)};
  }
  Result<std::vector<std::string>> list() override {
    const std::lock_guard guard{mutex_};
    std::vector<std::string> ids;
    for (const auto& [id, body] : cells_) {
      ids.push_back(id);
    }
    return ids;
  }
  Result<> close() override { return {}; }

  // --- what a test does and asks ---

  void die(const std::string& id) {
    const std::lock_guard guard{mutex_};
    Body& body = cells_.at(id);
    body.dead = true;
    const std::uint64_t one = 1;
    CHECK(::write(body.process.get(), &one, sizeof one) == sizeof one);
  }
  void hold_create(const std::string& id) {
    const std::lock_guard guard{mutex_};
    held_.insert(id);
  }
  void release_create(const std::string& id) {
    const std::lock_guard guard{mutex_};
    held_.erase(id);
    changed_.notify_all();
  }
  void wait_until_creating() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return creating_ > 0; });
  }
  void fail_create(const std::string& id) { failing_.insert(id); }
  void succeed_create(const std::string& id) { failing_.erase(id); }
  // Its descriptor is one that epoll refuses.
  void become_unwatchable(const std::string& id) { unwatchable_.insert(id); }
  void get_stuck(const std::string& id) { stuck_.insert(id); }
  void get_unstuck(const std::string& id) { stuck_.erase(id); }
  bool exists(const std::string& id) {
    const std::lock_guard guard{mutex_};
    return cells_.contains(id);
  }
  runtime::CellSpec spec(const std::string& id) {
    const std::lock_guard guard{mutex_};
    return cells_.at(id).spec;
  }
  // Off, so that tests with hundreds of cells need no descriptors for them.
  void have_networks() { networks_ = true; }
  std::size_t networks_opened() const { return networks_opened_; }
  std::size_t count() {
    const std::lock_guard guard{mutex_};
    return cells_.size();
  }

 private:
  struct Body {
    runtime::CellSpec spec;
    runtime::CellRecord record;
    Fd process;
    bool dead = false;
    bool frozen = false;
  };

  // Files stand for sockets: each has a number of its own.
  static runtime::NetworkSockets make_network() {
    return {Fd{::memfd_create("tcp", MFD_CLOEXEC)}, Fd{::memfd_create("udp", MFD_CLOEXEC)},
            Fd{::memfd_create("dns", MFD_CLOEXEC)}};
  }

  Result<> set_frozen(const std::string& id, bool frozen) {
    const std::lock_guard guard{mutex_};
    TRY(Body * body, find(id));
    body->frozen = frozen;
    return {};
  }
  // Like the real one: a cell that died may be gone when it is asked about.
  Result<Body*> find(const std::string& id) {
    const auto found = cells_.find(id);
    if (found == cells_.end()) {
      return fail(Code::kNotFound, "there is no such cell");
    }
    return &found->second;
  }

  runtime::Capabilities capabilities_{.name = "fake", .freeze = true};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Body> cells_;
  std::set<std::string> held_;
  std::set<std::string> failing_;
  std::set<std::string> stuck_;
  std::set<std::string> unwatchable_;
  std::int32_t next_pid_ = 100;
  bool networks_ = false;
  std::atomic<std::size_t> networks_opened_ = 0;
  int creating_ = 0;
};

}  // namespace atl::node::testing
