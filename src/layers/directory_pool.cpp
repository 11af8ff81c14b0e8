#include "layers/directory_pool.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"
#include "layers/directory.h"
#include "layers/limits.h"
#include "layers/names.h"
#include "layers/promote.h"
#include "layers/trash.h"
#include "layers/upper_account.h"

namespace atl::layers {
namespace {

constexpr const char* kLayers = "layers";
constexpr const char* kUppers = "uppers";
constexpr const char* kSnapshots = "snapshots";
constexpr const char* kTrash = "trash";
constexpr const char* kDumps = "dumps";

Result<std::vector<std::string>> list_ids(int directory_fd) {
  TRY(std::vector<std::string> names, list_names(directory_fd));
  std::erase_if(names, [](const std::string& name) { return !is_valid_name(name); });
  return names;
}

class DirectoryPool final : public Pool {
 public:
  DirectoryPool(DirectoryPoolParts parts, Fd layers, Fd uppers, Fd snapshots, Fd trash)
      : lock_(std::move(parts.lock)),
        pool_path_(std::move(parts.pool_path)),
        root_path_(std::move(parts.root_path)),
        volumes_(std::move(parts.volumes)),
        loop_(std::move(parts.loop)),
        layers_(std::move(layers)),
        uppers_(std::move(uppers)),
        snapshots_(std::move(snapshots)),
        trash_(std::make_unique<Trash>(std::move(trash), *volumes_)) {}

  Result<PoolStatus> status() override {
    struct statvfs info{};
    if (::fstatvfs(layers_.get(), &info) != 0) {
      return fail_errno("asking for the pool's space");
    }
    std::uint64_t free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize;
    if (loop_) {
      // The file is sparse: it cannot grow beyond what its own file system has left.
      TRY(const std::uint64_t host_free_bytes, free_bytes_at(pool_path_));
      free_bytes = std::min(free_bytes, host_free_bytes);
    }
    return PoolStatus{.backend = volumes_->backend(),
                      .quota = volumes_->has_quota(),
                      .total_bytes = std::uint64_t{info.f_blocks} * info.f_frsize,
                      .free_bytes = free_bytes};
  }

  Result<> add_layer(const std::string& id,
                     const std::function<Result<>(const std::string&)>& fill) override {
    TRY_DO(check_name("layer", id));
    if (has_layer(id)) {
      return fail(Code::kAlreadyExists, concat("layer ", id, " already exists"));
    }
    const std::string temporary = unique_name(kNewPrefix, id);
    TRY_DO(volumes_->create(layers_.get(), temporary, 0));
    auto added = fill_layer(id, temporary, fill);
    if (!added) {
      throw_away_half_made(layers_.get(), temporary);
    }
    return added;
  }

  bool has_layer(const std::string& id) override {
    return is_valid_name(id) && has_directory(layers_.get(), id);
  }

  std::string layer_path(const std::string& id) override {
    CHECK(is_valid_name(id));
    return concat(root_path_, "/", kLayers, "/", id);
  }

  Result<> remove_layer(const std::string& id) override {
    TRY_DO(check_name("layer", id));
    if (!has_layer(id)) {
      return {};
    }
    TRY_DO(volumes_->unseal(layers_.get(), id));
    ATOLL_FAULT_POINT("layers.layer_remove.unsealed");
    return trash_->throw_away(layers_.get(), id);
  }

  Result<std::vector<std::string>> list_layers() override { return list_ids(layers_.get()); }

  Result<std::string> create_upper(const std::string& id, std::uint64_t limit_bytes) override {
    TRY_DO(check_name("upper", id));
    TRY_DO(check_limit(limit_bytes));
    const std::string temporary = unique_name(kNewPrefix, id);
    TRY_DO(check_writable());
    TRY_DO(ATOLL_FAULT_CHECK("layers.upper.create"));
    TRY_DO(volumes_->create(uppers_.get(), temporary, limit_bytes));
    ATOLL_FAULT_POINT("layers.upper.half_made");
    auto made = fill_upper(id, temporary);
    if (!made) {
      throw_away_half_made(uppers_.get(), temporary);
      return fail(std::move(made).error());
    }
    return upper_path(id);
  }

  bool has_upper(const std::string& id) override {
    return is_valid_name(id) && has_directory(uppers_.get(), id);
  }

  std::string upper_path(const std::string& id) override {
    CHECK(is_valid_name(id));
    return concat(root_path_, "/", kUppers, "/", id);
  }

  Result<> set_upper_limit(const std::string& id, std::uint64_t limit_bytes) override {
    TRY_DO(check_name("upper", id));
    TRY_DO(check_limit(limit_bytes));
    return limit_upper(*volumes_, {uppers_.get(), id}, limit_bytes);
  }

  Result<UpperUsage> upper_usage(const std::string& id) override {
    TRY_DO(check_name("upper", id));
    return layers::upper_usage(*volumes_, {uppers_.get(), id});
  }

  Result<> remove_upper(const std::string& id) override {
    TRY_DO(check_name("upper", id));
    return trash_->throw_away(uppers_.get(), id);
  }

  Result<std::vector<std::string>> list_uppers() override { return list_ids(uppers_.get()); }

  Result<> commit_upper(const std::string& id, const std::string& layer_id) override {
    TRY_DO(check_name("upper", id));
    TRY_DO(check_name("layer", layer_id));
    if (has_layer(layer_id)) {
      return fail(Code::kAlreadyExists, concat("layer ", layer_id, " already exists"));
    }
    std::uint64_t limit_bytes = 0;
    if (volumes_->has_quota()) {
      const auto usage = volumes_->usage(uppers_.get(), id);
      limit_bytes = usage ? usage->limit_bytes : 0;
      TRY_DO(volumes_->set_limit(uppers_.get(), id, 0));
    }
    const std::string temporary = unique_name(kNewPrefix, layer_id);
    if (::renameat2(uppers_.get(), id.c_str(), layers_.get(), temporary.c_str(),
                    RENAME_NOREPLACE) != 0) {
      return fail_errno(concat("making a layer of upper ", id));
    }
    ATOLL_FAULT_POINT("layers.commit.renamed");
    const auto promoted = promote_upper(layers_.get(), temporary);
    ATOLL_FAULT_POINT("layers.commit.promoted");
    auto added = finish_layer(layer_id, temporary, promoted);
    // Without its temporary name it is a layer, only not surely on disk.
    if (!added && has_directory(layers_.get(), temporary)) {
      put_upper_back(id, temporary, promoted.has_value(), limit_bytes);
    }
    return added;
  }

  using Pool::snapshot_upper;
  Result<> snapshot_upper(const std::string& id, const std::string& snapshot_id,
                          SnapshotOptions options) override {
    TRY_DO(check_name("upper", id));
    TRY_DO(check_name("snapshot", snapshot_id));
    if (has_snapshot(snapshot_id)) {
      return fail(Code::kAlreadyExists, concat("snapshot ", snapshot_id, " already exists"));
    }
    TRY_DO(check_writable());
    TRY_DO(ATOLL_FAULT_CHECK("layers.snapshot.create"));
    TRY_DO(prepare_inheritance(*volumes_, {uppers_.get(), id}));
    ATOLL_FAULT_POINT("layers.snapshot.prepared");
    if (volumes_->snapshots_whole()) {
      return volumes_->snapshot({uppers_.get(), id}, {snapshots_.get(), snapshot_id},
                                !options.passing);
    }
    const std::string temporary = unique_name(kNewPrefix, snapshot_id);
    auto copied =
        volumes_->snapshot({uppers_.get(), id}, {snapshots_.get(), temporary}, !options.passing);
    if (copied) {
      copied = sync();
    }
    if (copied) {
      copied = rename_new(snapshots_.get(), temporary, snapshot_id);
    }
    if (!copied) {
      throw_away_half_made(snapshots_.get(), temporary);
      return copied;
    }
    return sync();
  }

  bool has_snapshot(const std::string& id) override {
    return is_valid_name(id) && has_directory(snapshots_.get(), id);
  }

  std::string snapshot_path(const std::string& id) override {
    CHECK(is_valid_name(id));
    return concat(root_path_, "/", kSnapshots, "/", id);
  }

  Result<> remove_snapshot(const std::string& id) override {
    TRY_DO(check_name("snapshot", id));
    if (!has_snapshot(id)) {
      return {};
    }
    // To rename it into the trash, it would have to be unsealed, which commits.
    auto destroyed = volumes_->destroys_quickly() ? volumes_->destroy(snapshots_.get(), id)
                                                  : fail(Code::kUnimplemented, "takes its time");
    ATOLL_FAULT_POINT("layers.snapshot_remove.gone");
    return destroyed ? destroyed : sweep(snapshots_.get(), id);
  }

  Result<std::vector<std::string>> list_snapshots() override { return list_ids(snapshots_.get()); }

  Result<std::string> create_upper_from(const std::string& id, const std::string& snapshot_id,
                                        std::uint64_t limit_bytes) override {
    TRY(const std::string temporary, copy_of_snapshot(id, snapshot_id, limit_bytes));
    ATOLL_FAULT_POINT("layers.upper_from.copied");
    auto named = rename_new(uppers_.get(), temporary, id);
    ATOLL_FAULT_POINT("layers.upper_from.named");
    if (!named) {
      throw_away_half_made(uppers_.get(), temporary);
      return fail(std::move(named).error());
    }
    return upper_path(id);
  }

  Result<std::string> take_snapshot(const std::string& id, const std::string& snapshot_id,
                                    std::uint64_t limit_bytes) override {
    TRY_DO(check_copy(id, snapshot_id, limit_bytes));
    TRY_DO(ATOLL_FAULT_CHECK("layers.take"));
    const TreePlace snapshot{snapshots_.get(), snapshot_id};
    TRY_DO(volumes_->unseal(snapshots_.get(), snapshot_id));
    if (volumes_->has_quota()) {
      TRY_DO(inherit(snapshot, snapshot));
      TRY_DO(limit_upper(*volumes_, snapshot, limit_bytes));
    }
    ATOLL_FAULT_POINT("layers.take.prepared");
    if (::renameat2(snapshots_.get(), snapshot_id.c_str(), uppers_.get(), id.c_str(),
                    RENAME_NOREPLACE) != 0) {
      return fail_errno(concat("taking snapshot ", snapshot_id, " for upper ", id));
    }
    ATOLL_FAULT_POINT("layers.take.named");
    return upper_path(id);
  }

  Result<> commit_uppers() override { return volumes_->commit(uppers_.get()); }

  Result<> restore_upper(const std::string& id, const std::string& snapshot_id,
                         std::uint64_t limit_bytes) override {
    TRY(const std::string temporary, copy_of_snapshot(id, snapshot_id, limit_bytes));
    ATOLL_FAULT_POINT("layers.restore.copied");
    const unsigned flags = has_upper(id) ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    if (::renameat2(uppers_.get(), temporary.c_str(), uppers_.get(), id.c_str(), flags) != 0) {
      auto failed = fail_errno(concat("restoring upper ", id));
      throw_away_half_made(uppers_.get(), temporary);
      return failed;
    }
    ATOLL_FAULT_POINT("layers.restore.exchanged");
    auto durable = volumes_->commit(uppers_.get());
    ATOLL_FAULT_POINT("layers.restore.durable");
    // Who hears of a failure may count on what was there.
    if (!durable &&
        ::renameat2(uppers_.get(), id.c_str(), uppers_.get(), temporary.c_str(), flags) != 0) {
      return fail(errno_error(concat(durable.error().message, "; putting back upper ", id)));
    }
    throw_away_half_made(uppers_.get(), temporary);  // what it was before, or has not become
    return durable;
  }

  Result<> sync_upper(const std::string& id) override {
    TRY_DO(check_name("upper", id));
    TRY_DO(ATOLL_FAULT_CHECK("layers.upper.sync"));
    return volumes_->sync({uppers_.get(), id});
  }

  Result<> flush_upper(const std::string& id) override {
    TRY_DO(check_name("upper", id));
    const TreePlace upper{uppers_.get(), id};
    if (volumes_->unwritten_bytes(upper) <= kLittleUnwrittenBytes) {
      return {};
    }
    return volumes_->sync(upper);
  }

  std::string dumps_path() override { return concat(root_path_, "/", kDumps); }

  Result<std::vector<std::string>> collect() override {
    std::vector<std::string> done;
    for (const auto& [directory, what] :
         {std::pair{layers_.get(), "layer "}, std::pair{uppers_.get(), "upper "},
          std::pair{snapshots_.get(), "snapshot "}}) {
      TRY(const std::vector<std::string> names, list_names(directory));
      for (const std::string& name : names) {
        if (!name.starts_with(kNewPrefix)) {
          continue;
        }
        if (const auto swept = sweep(directory, name); !swept) {
          LOG_WARN("something half-made stays until the next start", {"name", name},
                   {"error", swept.error()});
          continue;
        }
        done.push_back(concat("removed half-made ", what, name.substr(kNewPrefix.size())));
      }
    }
    ATOLL_FAULT_POINT("layers.collect.swept");
    std::ranges::move(trash_->empty(), std::back_inserter(done));
    auto booked = volumes_->collect();
    if (!booked) {
      LOG_WARN("the books of deleted volumes stay as they are", {"error", booked.error()});
      return done;
    }
    std::ranges::move(*booked, std::back_inserter(done));
    return done;
  }

  Result<> close() override {
    if (trash_) {
      trash_->stop();
      if (::syncfs(layers_.get()) != 0) {
        return fail_errno("making the pool durable");
      }
      trash_.reset();
      layers_.reset();
      uppers_.reset();
      snapshots_.reset();
      volumes_.reset();
    }
    // May fail while something still uses the mount; then close can be called again.
    if (loop_) {
      TRY_DO(loop_->close());
      loop_.reset();
    }
    lock_.reset();
    return {};
  }

 private:
  Result<> sweep(int directory_fd, const std::string& name) {
    TRY_DO(volumes_->unseal(directory_fd, name));
    return trash_->throw_away(directory_fd, name);
  }

  static Result<> check_limit(std::uint64_t limit_bytes) {
    if (limit_bytes != 0 && limit_bytes < kMinUpperLimitBytes) {
      return fail(Code::kInvalidArgument,
                  concat("a disk limit must be at least ", kMinUpperLimitBytes, " bytes"));
    }
    return {};
  }

  // A file system that the kernel does not trust any more takes no writes.
  Result<> check_writable() const {
    struct statvfs info{};
    if (::fstatvfs(uppers_.get(), &info) == 0 && (info.f_flag & ST_RDONLY) != 0) {
      return fail(Code::kUnavailable,
                  concat("the storage of this node is read-only; look for the reason in the "
                         "kernel's log, repair and mount ",
                         root_path_, " again"),
                  "storage_read_only");
    }
    return {};
  }

  Result<> sync() const {
    TRY_DO(ATOLL_FAULT_CHECK("layers.sync"));
    if (::syncfs(layers_.get()) != 0) {
      return fail_errno("making a layer durable");
    }
    return {};
  }

  Result<> fill_layer(const std::string& id, const std::string& temporary,
                      const std::function<Result<>(const std::string&)>& fill) {
    return finish_layer(id, temporary, fill(concat(root_path_, "/", kLayers, "/", temporary)));
  }

  Result<> finish_layer(const std::string& id, const std::string& temporary,
                        const Result<>& filled) {
    TRY_DO(filled);
    TRY_DO(volumes_->seal(layers_.get(), temporary));
    ATOLL_FAULT_POINT("layers.layer.sealed");
    TRY_DO(sync());  // the contents before the name
    TRY_DO(rename_new(layers_.get(), temporary, id));
    return sync();
  }

  // A sandbox's files must not be lost with a failed commit.
  void put_upper_back(const std::string& id, const std::string& temporary, bool promoted,
                      std::uint64_t limit_bytes) {
    auto back = volumes_->unseal(layers_.get(), temporary);
    if (back && promoted) {
      back = demote_layer(layers_.get(), temporary);
    }
    // Also one that could not be put in order: under its temporary name it would be deleted.
    if (::renameat2(layers_.get(), temporary.c_str(), uppers_.get(), id.c_str(),
                    RENAME_NOREPLACE) != 0) {
      back = fail_errno("naming it");
    } else if (volumes_->has_quota()) {
      if (auto limited = volumes_->set_limit(uppers_.get(), id, limit_bytes); !limited && back) {
        back = std::move(limited);
      }
    }
    if (!back) {
      LOG_ERROR("putting back an upper that did not become a layer", {"upper", id},
                {"error", back.error()});
    }
  }

  Result<> check_copy(const std::string& id, const std::string& snapshot_id,
                      std::uint64_t limit_bytes) {
    TRY_DO(check_name("upper", id));
    TRY_DO(check_name("snapshot", snapshot_id));
    TRY_DO(check_limit(limit_bytes));
    if (!has_snapshot(snapshot_id)) {
      return fail(Code::kNotFound, concat("there is no snapshot ", snapshot_id));
    }
    return check_writable();
  }

  // An upper to be, under a temporary name that is returned.
  Result<std::string> copy_of_snapshot(const std::string& id, const std::string& snapshot_id,
                                       std::uint64_t limit_bytes) {
    TRY_DO(check_copy(id, snapshot_id, limit_bytes));
    TRY_DO(ATOLL_FAULT_CHECK("layers.copy.create"));
    std::string temporary = unique_name(kNewPrefix, id);
    auto copied =
        volumes_->snapshot({snapshots_.get(), snapshot_id}, {uppers_.get(), temporary}, false);
    ATOLL_FAULT_POINT("layers.copy.half_made");
    if (copied && volumes_->has_quota()) {
      const TreePlace upper{uppers_.get(), temporary};
      copied = inherit({snapshots_.get(), snapshot_id}, upper);
      copied = copied ? limit_upper(*volumes_, upper, limit_bytes) : copied;
    }
    if (!copied) {
      throw_away_half_made(uppers_.get(), temporary);
      return fail(std::move(copied).error());
    }
    return temporary;
  }

  void throw_away_half_made(int directory_fd, const std::string& temporary) {
    auto removed = volumes_->unseal(directory_fd, temporary);
    if (removed) {
      removed = trash_->throw_away(directory_fd, temporary);
    }
    if (!removed && removed.error().code != Code::kNotFound) {
      LOG_WARN("something half-made stays until the next start", {"error", removed.error()});
    }
  }

  Result<> fill_upper(const std::string& id, const std::string& temporary) {
    TRY(const Fd fd, open_directory(uppers_.get(), temporary));
    TRY_DO(make_directory(fd.get(), "upper", 0755));
    TRY_DO(make_directory(fd.get(), "work", 0755));
    return rename_new(uppers_.get(), temporary, id);
  }

  Fd lock_;
  std::string pool_path_;
  std::string root_path_;
  std::unique_ptr<Volumes> volumes_;
  std::optional<LoopPool> loop_;
  Fd layers_;
  Fd uppers_;
  Fd snapshots_;
  std::unique_ptr<Trash> trash_;
};

}  // namespace

Result<std::unique_ptr<Pool>> make_directory_pool(DirectoryPoolParts parts) {
  TRY(const Fd root, open_directory(AT_FDCWD, parts.root_path));
  TRY(Fd layers, open_private_directory(root.get(), kLayers));
  TRY(Fd uppers, open_private_directory(root.get(), kUppers));
  TRY(Fd snapshots, open_private_directory(root.get(), kSnapshots));
  TRY(Fd trash, open_private_directory(root.get(), kTrash));
  TRY_DO(open_private_directory(root.get(), kDumps));
  return std::make_unique<DirectoryPool>(std::move(parts), std::move(layers), std::move(uppers),
                                         std::move(snapshots), std::move(trash));
}

}  // namespace atl::layers
