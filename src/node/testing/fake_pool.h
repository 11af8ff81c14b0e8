// A Pool without a disk: sets of names.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "layers/room.h"

namespace atl::node::testing {

class FakePool final : public layers::Pool {
 public:
  Result<layers::PoolStatus> status() override {
    const std::lock_guard guard{mutex_};
    return status_;
  }
  Result<> add_layer(const std::string& id,
                     const std::function<Result<>(const std::string&)>& fill) override {
    TRY_DO(fill("/nowhere"));
    const std::lock_guard guard{mutex_};
    layers_.insert(id);
    return {};
  }
  bool has_layer(const std::string& id) override {
    const std::lock_guard guard{mutex_};
    return layers_.contains(id);
  }
  std::string layer_path(const std::string& id) override { return "/layers/" + id; }
  Result<> remove_layer(const std::string& id) override {
    const std::lock_guard guard{mutex_};
    layers_.erase(id);
    return {};
  }
  Result<std::vector<std::string>> list_layers() override {
    const std::lock_guard guard{mutex_};
    return std::vector<std::string>(layers_.begin(), layers_.end());
  }
  Result<std::string> create_upper(const std::string& id, std::uint64_t) override {
    const std::lock_guard guard{mutex_};
    if (!uppers_.insert(id).second) {
      return fail(Code::kAlreadyExists, "the upper exists");
    }
    return "/uppers/" + id;
  }
  bool has_upper(const std::string& id) override {
    const std::lock_guard guard{mutex_};
    return uppers_.contains(id);
  }
  std::string upper_path(const std::string& id) override { return "/uppers/" + id; }
  Result<> set_upper_limit(const std::string&, std::uint64_t limit_bytes) override {
    const std::lock_guard guard{mutex_};
    if (!status_.quota) {
      return fail(Code::kUnimplemented, "disk limits need btrfs; this pool is copy");
    }
    limits_.push_back(limit_bytes);
    return {};
  }
  Result<layers::UpperUsage> upper_usage(const std::string&) override {
    return layers::UpperUsage{.used_bytes = 14};
  }
  Result<> remove_upper(const std::string& id) override {
    const std::lock_guard guard{mutex_};
    uppers_.erase(id);
    return {};
  }
  std::string dumps_path() override { return ""; }
  Result<std::vector<std::string>> list_uppers() override {
    const std::lock_guard guard{mutex_};
    return std::vector<std::string>(uppers_.begin(), uppers_.end());
  }
  Result<> commit_upper(const std::string& id, const std::string& layer_id) override {
    const std::lock_guard guard{mutex_};
    uppers_.erase(id);
    layers_.insert(layer_id);
    return {};
  }
  using Pool::snapshot_upper;
  Result<> snapshot_upper(const std::string& id, const std::string& snapshot_id,
                          SnapshotOptions) override {
    const std::lock_guard guard{mutex_};
    if (!uppers_.contains(id)) {
      return fail(Code::kNotFound, "no such upper");
    }
    if (!snapshots_.insert(snapshot_id).second) {
      return fail(Code::kAlreadyExists, "the snapshot exists");
    }
    return {};
  }
  bool has_snapshot(const std::string& id) override {
    const std::lock_guard guard{mutex_};
    return snapshots_.contains(id);
  }
  std::string snapshot_path(const std::string& id) override { return "/snapshots/" + id; }
  Result<> remove_snapshot(const std::string& id) override {
    const std::lock_guard guard{mutex_};
    snapshots_.erase(id);
    return {};
  }
  Result<std::vector<std::string>> list_snapshots() override {
    const std::lock_guard guard{mutex_};
    return std::vector<std::string>(snapshots_.begin(), snapshots_.end());
  }
  Result<std::string> create_upper_from(const std::string& id, const std::string& snapshot_id,
                                        std::uint64_t limit_bytes) override {
    if (!has_snapshot(snapshot_id)) {
      return fail(Code::kNotFound, "no such snapshot");
    }
    return create_upper(id, limit_bytes);
  }
  Result<std::string> take_snapshot(const std::string& id, const std::string& snapshot_id,
                                    std::uint64_t limit_bytes) override {
    TRY(std::string path, create_upper_from(id, snapshot_id, limit_bytes));
    TRY_DO(remove_snapshot(snapshot_id));
    return path;
  }
  Result<> commit_uppers() override {
    const std::lock_guard guard{mutex_};
    ++commits_;
    return {};
  }
  int commits() const {
    const std::lock_guard guard{mutex_};
    return commits_;
  }
  Result<> restore_upper(const std::string& id, const std::string& snapshot_id,
                         std::uint64_t) override {
    if (!has_snapshot(snapshot_id)) {
      return fail(Code::kNotFound, "no such snapshot");
    }
    const std::lock_guard guard{mutex_};
    uppers_.insert(id);
    restored_.push_back(id);
    return {};
  }
  Result<> sync_upper(const std::string&) override {
    const std::lock_guard guard{mutex_};
    ++syncs_;
    return {};
  }
  Result<> flush_upper(const std::string&) override { return {}; }
  Result<std::vector<std::string>> collect() override { return std::vector<std::string>{}; }
  Result<> close() override { return {}; }

  // --- what a test does and asks ---

  void set_status(layers::PoolStatus status) {
    const std::lock_guard guard{mutex_};
    status_ = status;
  }
  // Every limit that was set on an upper that existed, in order.
  std::vector<std::uint64_t> limits() {
    const std::lock_guard guard{mutex_};
    return limits_;
  }
  std::vector<std::string> restored() {
    const std::lock_guard guard{mutex_};
    return restored_;
  }
  int syncs() {
    const std::lock_guard guard{mutex_};
    return syncs_;
  }

 private:
  mutable std::mutex mutex_;
  int commits_ = 0;
  std::set<std::string> layers_{"base-1", "base-2"};
  std::set<std::string> uppers_;
  std::set<std::string> snapshots_;
  std::vector<std::string> restored_;
  int syncs_ = 0;
  layers::PoolStatus status_{
      .backend = layers::Backend::kCopy, .total_bytes = 100ULL << 30, .free_bytes = 50ULL << 30};
  std::vector<std::uint64_t> limits_;
};

}  // namespace atl::node::testing
