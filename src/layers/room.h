// The storage engine: immutable layers below, one writable upper per sandbox above.
//
// Everything lives in a pool directory. The pool is btrfs: either the data directory already is,
// or a sparse loop file in it is formatted and mounted (in this process's private mount namespace,
// so nothing shows on the host and nothing is left when the last user is gone). Where the kernel
// has no btrfs, uppers are plain directories and snapshots are reflink copies, else plain copies;
// `backend()` says which. Ids on disk are the sandbox's own (0..65535): nothing is ever chowned.
// All calls block and are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace atl::layers {

enum class Backend : std::uint8_t { kBtrfs, kReflink, kCopy };
std::string_view backend_name(Backend backend);

struct PoolOptions {
  std::string directory;         // <data-dir>/pool; created when missing
  std::uint64_t loop_bytes = 0;  // size of a new loop pool; 0: most of the free space
  bool allow_btrfs = true;       // tests switch it off to exercise the fallbacks
};

struct PoolStatus {
  Backend backend = Backend::kCopy;
  bool quota = false;  // per-sandbox disk limits are enforced
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
};

struct UpperUsage {
  std::uint64_t used_bytes = 0;
  std::uint64_t limit_bytes = 0;  // 0: none
};

class Pool {
 public:
  virtual ~Pool() = default;
  virtual Result<PoolStatus> status() = 0;

  // Layers. An id is [a-z0-9._-]{1,128}. A layer appears whole or not at all: it is filled under a
  // temporary name and renamed. `fill` gets an empty directory to put the tree into.
  virtual Result<> add_layer(const std::string& id,
                             const std::function<Result<>(const std::string& directory)>& fill) = 0;
  virtual bool has_layer(const std::string& id) = 0;
  virtual std::string layer_path(const std::string& id) = 0;  // absolute
  virtual Result<> remove_layer(const std::string& id) = 0;
  virtual Result<std::vector<std::string>> list_layers() = 0;

  // Uppers. `create_upper` gives a directory that holds empty "upper" and "work" (0755, root).
  // A limit is at least 1 MiB or 0 for none; writing beyond it fails with EDQUOT (see README).
  virtual Result<std::string> create_upper(const std::string& id, std::uint64_t limit_bytes) = 0;
  virtual bool has_upper(const std::string& id) = 0;
  virtual std::string upper_path(const std::string& id) = 0;
  virtual Result<> set_upper_limit(const std::string& id, std::uint64_t limit_bytes) = 0;
  virtual Result<UpperUsage> upper_usage(const std::string& id) = 0;
  virtual Result<> remove_upper(const std::string& id) = 0;  // idempotent, returns quickly
  virtual Result<std::vector<std::string>> list_uppers() = 0;
  // The tree of the upper becomes the layer `layer_id`; the upper is gone. Durable when it returns.
  // REQUIRES: nothing has the upper mounted. When it fails, the upper is back under its name.
  virtual Result<> commit_upper(const std::string& id, const std::string& layer_id) = 0;

  // Snapshots: an upper as it was at one moment, immutable. On btrfs the cost does not depend on
  // the size; elsewhere it is a copy. The upper may be in use: who wants a moment that is
  // consistent for its programs stops them meanwhile. Durable when it returns. One that only passes
  // is made to be taken or removed, and stays writable: to unseal it would cost a commit.
  struct SnapshotOptions {
    bool passing = false;
  };
  virtual Result<> snapshot_upper(const std::string& id, const std::string& snapshot_id,
                                  SnapshotOptions options) = 0;
  Result<> snapshot_upper(const std::string& id, const std::string& snapshot_id) {
    return snapshot_upper(id, snapshot_id, {});
  }
  virtual bool has_snapshot(const std::string& id) = 0;
  virtual std::string snapshot_path(const std::string& id) = 0;  // absolute; the tree is in "upper"
  virtual Result<> remove_snapshot(const std::string& id) = 0;   // idempotent, returns quickly
  virtual Result<std::vector<std::string>> list_snapshots() = 0;
  // A new upper that begins as the snapshot, whose size counts against the limit. Many are durable
  // after one commit_uppers().
  virtual Result<std::string> create_upper_from(const std::string& id,
                                                const std::string& snapshot_id,
                                                std::uint64_t limit_bytes) = 0;
  // The same, but the snapshot itself becomes the upper, and is no longer: nothing is made, so it
  // needs no commit of its own. When it fails, the snapshot is where it was.
  virtual Result<std::string> take_snapshot(const std::string& id, const std::string& snapshot_id,
                                            std::uint64_t limit_bytes) = 0;
  virtual Result<> commit_uppers() = 0;
  // The upper becomes what the snapshot is, wholly or not at all. Durable when it returns.
  // REQUIRES: nothing has the upper mounted.
  virtual Result<> restore_upper(const std::string& id, const std::string& snapshot_id,
                                 std::uint64_t limit_bytes) = 0;
  // A directory for root only, on the pool's file system, for what belongs to disks but is none.
  virtual std::string dumps_path() = 0;
  // What was written to the upper so far is on disk when it returns. On btrfs what others have
  // written is not waited for.
  virtual Result<> sync_upper(const std::string& id) = 0;
  // The same when much of it is only in memory, else nothing: worth a call before a sandbox is
  // stopped for a snapshot or a pause, so that it stands still for little.
  virtual Result<> flush_upper(const std::string& id) = 0;

  // Removes half-made layers and uppers that a killed process left, and finishes deletions.
  // Says what it did. Called once at start, before anything else uses the pool.
  virtual Result<std::vector<std::string>> collect() = 0;
  // Makes everything durable, unmounts, detaches the loop device. REQUIRES: no sandbox runs.
  virtual Result<> close() = 0;
};

Result<std::unique_ptr<Pool>> open_pool(const PoolOptions& options);

}  // namespace atl::layers
