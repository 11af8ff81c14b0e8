#include "layers/btrfs_volumes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/log.h"
#include "base/strings.h"
#include "layers/btrfs_ioctl.h"
#include "layers/directory.h"
#include "layers/limits.h"
#include "layers/names.h"
#include "layers/remove_tree.h"

namespace atl::layers {
namespace {

// Where the kernel shows its live books; the quota tree itself lags behind by one commit.
std::string quota_directory(const std::string& uuid) {
  return concat("/sys/fs/btrfs/", uuid, "/qgroups");
}

Result<std::uint64_t> read_number(const std::string& path) {
  TRY(const std::string text, read_file(path, 64));
  const auto number = parse_u64(trim(text));
  if (!number) {
    return fail(Code::kInternal, concat(path, " holds no number"));
  }
  return *number;
}

bool quota_is_on(const std::string& uuid) {
  const auto enabled = read_number(quota_directory(uuid) + "/enabled");
  return enabled && *enabled == 1;
}

class BtrfsVolumes final : public Volumes {
 public:
  BtrfsVolumes(Fd root, std::string uuid, bool quota)
      : root_(std::move(root)), uuid_(std::move(uuid)), quota_(quota) {}

  Backend backend() const override { return Backend::kBtrfs; }
  bool has_quota() const override { return quota_; }
  bool destroys_quickly() const override { return true; }

  Result<> create(int parent_fd, const std::string& name, std::uint64_t limit_bytes) override {
    return btrfs::create_subvolume(parent_fd, name, quota_ ? limit_bytes : 0);
  }

  bool snapshots_whole() const override { return true; }
  Result<> snapshot(const TreePlace& from, const TreePlace& to, bool read_only) override {
    TRY(const Fd fd, open_directory(from.parent_fd, from.name));
    return btrfs::snapshot_subvolume(fd.get(), to.parent_fd, to.name, read_only);
  }

  // syncfs waits for what everybody has written: a neighbour with 300 MB in memory made it 200 ms.
  // A snapshot waits for the data of its own volume only and commits, in a few; where there is
  // nobody to wait for, syncfs leaves less to clean up.
  Result<> sync(const TreePlace& volume) override {
    const std::string temporary = unique_name(kNewPrefix, "sync");
    const bool alone = others_unwritten_bytes(volume) <= kLittleUnwrittenBytes;
    // A full pool has no room for a snapshot.
    if (alone || !snapshot(volume, {volume.parent_fd, temporary}, true)) {
      if (::syncfs(volume.parent_fd) != 0) {
        return fail_errno("making a volume durable");
      }
      return {};
    }
    // One that stays is half-made to the next start.
    if (auto removed = destroy(volume.parent_fd, temporary); !removed) {
      LOG_WARN("a snapshot for a moment stays", {"error", removed.error()});
    }
    return {};
  }

  // What the kernel has reserved for data that has no place on disk yet.
  std::uint64_t unwritten_bytes(const TreePlace& volume) override {
    const auto fd = open_directory(volume.parent_fd, volume.name);
    const auto id = fd ? btrfs::subvolume_id(fd->get()) : fail(fd.error());
    if (!quota_ || !id) {
      return ~0ULL;
    }
    return read_number(concat(quota_directory(uuid_), "/0_", *id, "/rsv_data")).value_or(~0ULL);
  }

  Result<> commit(int fd) override { return btrfs::commit(fd); }

  Result<> destroy(int parent_fd, const std::string& name) override {
    auto destroyed = btrfs::destroy_subvolume(parent_fd, name);
    if (!destroyed && destroyed.error().code == Code::kInvalidArgument) {
      return remove_tree(parent_fd, name);  // a plain directory or file in our trash
    }
    if (!destroyed && destroyed.error().reason == "ENOTEMPTY") {
      TRY_DO(destroy_nested(parent_fd, name));
      return btrfs::destroy_subvolume(parent_fd, name);
    }
    return destroyed;
  }

  Result<> seal(int parent_fd, const std::string& name) override {
    TRY(const Fd fd, open_directory(parent_fd, name));
    return btrfs::set_read_only(fd.get(), true);
  }

  Result<> unseal(int parent_fd, const std::string& name) override {
    TRY(const Fd fd, open_directory(parent_fd, name));
    return btrfs::set_read_only(fd.get(), false);
  }

  Result<> set_limit(int parent_fd, const std::string& name, std::uint64_t limit_bytes) override {
    if (!quota_) {
      return fail(Code::kUnimplemented,
                  "this btrfs has no quotas; turn them on with: btrfs quota enable --simple");
    }
    TRY(const Fd fd, open_directory(parent_fd, name));
    return btrfs::set_limit(fd.get(), limit_bytes);
  }

  Result<UpperUsage> usage(int parent_fd, const std::string& name) override {
    if (!quota_) {
      return fail(Code::kUnimplemented,
                  "this btrfs has no quotas, so it keeps no account of usage");
    }
    TRY(const Fd fd, open_directory(parent_fd, name));
    TRY(const std::uint64_t id, btrfs::subvolume_id(fd.get()));
    const std::string group = concat(quota_directory(uuid_), "/0_", id);
    TRY(std::uint64_t used_bytes, read_number(group + "/referenced"));
    // Written by the sandbox, not yet on disk. (What is reserved for metadata is a worst case that
    // lasts until the next commit: it would show hundreds of kilobytes in an empty upper.)
    used_bytes += read_number(group + "/rsv_data").value_or(0);
    TRY(const std::uint64_t limit, read_number(group + "/max_referenced"));
    // The kernel says "none" with 0 (never set) or with all ones (lifted).
    return UpperUsage{.used_bytes = used_bytes, .limit_bytes = limit == ~0ULL ? 0 : limit};
  }

  // Kernels before simple quotas keep the group of a deleted subvolume for ever.
  Result<std::vector<std::string>> collect() override {
    std::vector<std::string> done;
    const auto directory = open_directory(AT_FDCWD, quota_directory(uuid_));
    if (!quota_ || !directory) {
      return done;
    }
    TRY(const std::vector<std::string> groups, list_names(directory->get()));
    unsigned removed = 0;
    for (const std::string& group : groups) {
      const auto id = group.starts_with("0_") ? parse_u64(group.substr(2)) : std::nullopt;
      if (!id || *id < kFirstSubvolume || btrfs::subvolume_exists(root_.get(), *id)) {
        continue;
      }
      // Refused while the kernel still frees the subvolume's blocks; it then drops the group
      // itself, or the next start does.
      removed += btrfs::remove_quota_group(root_.get(), *id) ? 1 : 0;
    }
    if (removed > 0) {
      done.push_back(concat("removed ", removed, " quota groups of deleted subvolumes"));
    }
    return done;
  }

 private:
  static constexpr std::uint64_t kFirstSubvolume = 256;

  // A subvolume cannot go before those in it. Nobody makes such here, but whoever gets at a volume
  // otherwise must not be able to make it stay for ever. Each comes before what is in it in the
  // list, so they go from its end.
  Result<> destroy_nested(int parent_fd, const std::string& name) {
    TRY(const Fd fd, open_directory(parent_fd, name));
    TRY(const std::uint64_t id, btrfs::subvolume_id(fd.get()));
    std::vector<std::uint64_t> all{id};
    for (std::size_t i = 0; i < all.size(); ++i) {
      TRY(const auto nested, btrfs::nested_subvolumes(root_.get(), all[i]));
      all.insert(all.end(), nested.begin(), nested.end());
    }
    for (std::size_t i = all.size(); i > 1; --i) {
      TRY_DO(btrfs::destroy_subvolume(root_.get(), all[i - 1]));
    }
    return {};
  }

  // What is reserved for data in the whole pool but not for this volume. Only a hint.
  std::uint64_t others_unwritten_bytes(const TreePlace& volume) {
    const std::string data = concat("/sys/fs/btrfs/", uuid_, "/allocation/data/");
    const auto coming = read_number(data + "bytes_may_use");
    const auto on_the_way = read_number(data + "bytes_reserved");
    if (!coming || !on_the_way) {
      return ~0ULL;
    }
    const std::uint64_t mine = unwritten_bytes(volume);
    return *coming + *on_the_way - std::min(mine, *coming + *on_the_way);
  }

  Fd root_;
  std::string uuid_;
  bool quota_;
};

}  // namespace

bool btrfs_has_quota(int root_fd) {
  if (!btrfs::is_btrfs(root_fd)) {
    return false;
  }
  const auto uuid = btrfs::file_system_uuid(root_fd);
  return uuid && quota_is_on(*uuid);
}

Result<std::unique_ptr<Volumes>> open_btrfs_volumes(int root_fd, BtrfsVolumesOptions options) {
  TRY(Fd root, open_directory(root_fd, "."));
  TRY(std::string uuid, btrfs::file_system_uuid(root.get()));
  if (options.may_enable_quota && !quota_is_on(uuid)) {
    if (const auto enabled = btrfs::enable_quota(root.get()); !enabled) {
      LOG_WARN("disk limits cannot be enforced", {"error", enabled.error()});
    }
  }
  const bool quota = quota_is_on(uuid);
  return std::make_unique<BtrfsVolumes>(std::move(root), std::move(uuid), quota);
}

}  // namespace atl::layers
