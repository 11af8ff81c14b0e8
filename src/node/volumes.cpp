#include "node/volumes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"
#include "node/limits.h"

namespace atl::node {
namespace {

std::unexpected<Error> no_such_volume(const std::string& volume) {
  return fail(Code::kNotFound, concat("volume ", volume, " is not on this node"),
              "volume_not_found");
}

// Everybody in a sandbox may make files in it: who may use a volume is decided by who mounts it.
Result<> prepare_root(const std::string& directory, const VolumeRequest& request) {
  if (::lchown(directory.c_str(), request.uid, request.gid) != 0 ||
      ::chmod(directory.c_str(), 0777) != 0) {
    return fail_errno(concat("preparing ", directory));
  }
  return {};
}

}  // namespace

Result<> Volumes::check_space() {
  TRY(const layers::PoolStatus status, pool_.status());
  const std::uint64_t reserve_bytes =
      std::clamp(status.total_bytes / 50, kMinPoolReserveBytes, kMaxPoolReserveBytes);
  if (status.free_bytes < reserve_bytes) {
    return fail(Code::kResourceExhausted,
                concat("the storage of this node is full: ", status.free_bytes >> 20,
                       " MiB are left; delete what is not needed"),
                "disk_full");
  }
  return {};
}

Result<> Volumes::create(const VolumeRequest& request) {
  const IdLocks::Guard guard = locks_.lock(request.volume);
  const IdLocks::Guard reading = locks_.lock_shared(snapshot_lock_id(request.snapshot));
  if (pool_.has_upper(request.volume)) {
    return fail(Code::kAlreadyExists, concat("volume ", request.volume, " already exists"));
  }
  TRY_DO(check_space());
  if (!request.snapshot.empty()) {
    if (!pool_.has_snapshot(request.snapshot)) {
      return fail(Code::kNotFound, concat("snapshot ", request.snapshot, " is not on this node"),
                  "snapshot_not_found");
    }
    TRY_DO(pool_.create_upper_from(request.volume, request.snapshot, request.disk_bytes));
    return pool_.commit_uppers();
  }
  TRY(const std::string path, pool_.create_upper(request.volume, request.disk_bytes));
  ATOLL_FAULT_POINT("node.volume.half_made");
  auto prepared = prepare_root(path + "/upper", request);
  if (prepared) {
    prepared = pool_.sync_upper(request.volume);
  }
  if (!prepared) {
    if (const auto removed = pool_.remove_upper(request.volume); !removed) {
      LOG_WARN("a half-made volume stays", {"volume", request.volume}, {"error", removed.error()});
    }
  }
  return prepared;
}

Result<> Volumes::snapshot(const VolumeRequest& request) {
  const IdLocks::Guard guard = locks_.lock(request.volume);
  const IdLocks::Guard making = locks_.lock(snapshot_lock_id(request.snapshot));
  TRY_DO(volume_directory(pool_, request.volume));
  return pool_.snapshot_upper(request.volume, request.snapshot);
}

Result<> Volumes::restore(const VolumeRequest& request) {
  const IdLocks::Guard guard = locks_.lock(request.volume);
  const IdLocks::Guard reading = locks_.lock_shared(snapshot_lock_id(request.snapshot));
  TRY_DO(volume_directory(pool_, request.volume));
  return pool_.restore_upper(request.volume, request.snapshot, request.disk_bytes);
}

Result<> Volumes::remove(const std::string& volume) {
  const IdLocks::Guard guard = locks_.lock(volume);
  return pool_.remove_upper(volume);
}

Result<Usage> Volumes::usage(const std::string& volume) {
  TRY_DO(volume_directory(pool_, volume));
  TRY(const layers::UpperUsage usage, pool_.upper_usage(volume));
  return Usage{.disk_bytes = usage.used_bytes};
}

Result<std::vector<std::string>> Volumes::list() {
  TRY(std::vector<std::string> names, pool_.list_uppers());
  std::erase_if(names, [](const std::string& name) { return !is_volume_id(name); });
  return names;
}

Result<std::string> volume_directory(layers::Pool& pool, const std::string& volume) {
  if (!is_volume_id(volume) || !pool.has_upper(volume)) {
    return no_such_volume(volume);
  }
  return pool.upper_path(volume) + "/upper";
}

}  // namespace atl::node
