// What a create is refused for before anything is made.
#include <algorithm>

#include "base/strings.h"
#include "node/cells.h"
#include "node/limits.h"
#include "node/volumes.h"

namespace atl::node {

// A new disk must leave the others room to write. One that exists may start as long as it can be
// mounted, so that its owner can make room; and so may what serves the files of a volume.
Result<> Cells::check_space(const CreateRequest& request) const {
  TRY(const layers::PoolStatus status, parts_.pool.status());
  const std::uint64_t reserve_bytes =
      request.existing_upper || request.mount_is_root
          ? kMountRoomBytes
          : std::clamp(status.total_bytes / 50, kMinPoolReserveBytes, kMaxPoolReserveBytes);
  if (status.free_bytes < reserve_bytes) {
    return fail(Code::kResourceExhausted,
                concat("the storage of this node is full: ", status.free_bytes >> 20,
                       "Mi are free, a sandbox needs ", reserve_bytes >> 20,
                       "Mi; remove sandboxes or templates"),
                "disk_full");
  }
  return {};
}

Result<> Cells::find_views(const CreateRequest& request, runtime::CellSpec& spec) const {
  for (const View& view : request.views) {
    const bool layer = view.kind == View::Kind::kLayer;
    if (layer ? !parts_.pool.has_layer(view.id) : !parts_.pool.has_snapshot(view.id)) {
      return fail(Code::kNotFound,
                  concat(layer ? "layer " : "snapshot ", view.id, " is not on this node"),
                  layer ? "layer_not_found" : "snapshot_not_found");
    }
    spec.view_dirs.push_back(layer ? parts_.pool.layer_path(view.id)
                                   : concat(parts_.pool.snapshot_path(view.id), "/upper"));
  }
  return {};
}

// Everything that can be refused before anything is made.
Result<runtime::CellSpec> Cells::check_create(const CreateRequest& request) const {
  runtime::CellSpec spec{.id = request.id,
                         .hostname = request.hostname,
                         .upper_dir = parts_.pool.upper_path(request.id),
                         .limits = {request.limits.memory_bytes, request.limits.cpu_millis,
                                    request.limits.process_count},
                         .host_network = request.host_network,
                         .ephemeral_tmp = request.ephemeral_tmp,
                         .anonymous = is_passing_cell(request.id)};
  spec.mount_is_root = request.mount_is_root;
  for (const Mount& mount : request.mounts) {
    TRY(std::string directory, volume_directory(parts_.pool, mount.volume));
    spec.mounts.push_back({std::move(directory), mount.path, mount.read_only});
  }
  for (const std::string& layer : request.layers) {
    if (!parts_.pool.has_layer(layer)) {
      return fail(Code::kNotFound,
                  concat("layer ", layer, " is not on this node; its template must be built again"),
                  "layer_not_found");
    }
    spec.lower_dirs.push_back(parts_.pool.layer_path(layer));
  }
  const bool has_upper = parts_.pool.has_upper(request.id);
  if (request.existing_upper && !has_upper) {
    return fail(Code::kNotFound, concat("cell ", request.id, " has no disk to continue on"),
                "upper_not_found");
  }
  if (!request.existing_upper && has_upper) {
    return fail(Code::kAlreadyExists, concat("cell ", request.id, " already has a disk"));
  }
  if (!request.from_snapshot.empty() && !parts_.pool.has_snapshot(request.from_snapshot)) {
    return fail(Code::kNotFound, concat("snapshot ", request.from_snapshot, " is not on this node"),
                "snapshot_not_found");
  }
  TRY_DO(find_views(request, spec));
  TRY_DO(check_space(request));
  return spec;
}

}  // namespace atl::node
