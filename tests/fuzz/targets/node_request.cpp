// What the unprivileged API process may send to the root process.
#include "node/protocol.h"
#include "wire.h"

namespace atl::fuzz {
namespace {

using node::RequestKind;

// `whole`: also when a list begins at the beginning, which may be said in two ways.
std::string encode(const node::DecodedRequest& request, bool whole) {
  switch (request.kind) {
    case RequestKind::kCreate:
      return node::encode(request.create);
    case RequestKind::kDestroy:
      return node::encode(request.destroy);
    case RequestKind::kCommitLayer:
      return node::encode(request.commit);
    case RequestKind::kSetLimits:
      return node::encode_set_limits(request.id, request.limits);
    case RequestKind::kHello:
    case RequestKind::kWatch:
    case RequestKind::kCommitDisks:
      return node::encode_plain(request.kind);
    case RequestKind::kList:
      return whole ? node::encode_with_id(request.kind, request.id)
                   : node::encode_plain(request.kind);
    case RequestKind::kSnapshot:
    case RequestKind::kRestore:
      return node::encode(request.kind, request.snapshot);
    case RequestKind::kListLayers:
    case RequestKind::kListSnapshots:
    case RequestKind::kListVolumes:
      return whole ? node::encode_with_id(request.kind, request.layer)
                   : node::encode_plain(request.kind);
    case RequestKind::kRemoveLayer:
    case RequestKind::kRemoveSnapshot:
      return node::encode_with_id(request.kind, request.layer);
    case RequestKind::kBuildBuiltin:
      return node::encode_with_id(request.kind, request.name);
    case RequestKind::kCreateVolume:
    case RequestKind::kRemoveVolume:
    case RequestKind::kVolumeUsage:
    case RequestKind::kSnapshotVolume:
    case RequestKind::kRestoreVolume:
      return node::encode_volume(request.kind, request.volume);
    case RequestKind::kDetachVolume:
      return node::encode(request.detach);
    case RequestKind::kUsage:
    case RequestKind::kFreeze:
    case RequestKind::kThaw:
    case RequestKind::kDump:
    case RequestKind::kOpenNetwork:
      return node::encode_with_id(request.kind, request.id);
    case RequestKind::kOpenSocket:
      return node::encode(request.socket);
  }
  return {};
}

// Everything that becomes a file name, a cgroup or a host name on the other side.
void check_names(const node::DecodedRequest& request) {
  if (request.kind == RequestKind::kCreate) {
    CHECK(node::is_cell_id(request.create.id) && !request.create.layers.empty());
    CHECK(request.create.from_snapshot.empty() || node::is_layer_id(request.create.from_snapshot));
    for (const auto& layer : request.create.layers) {
      CHECK(node::is_layer_id(layer) && layer.find('/') == layer.npos);
    }
    for (const auto& view : request.create.views) {
      CHECK(node::is_layer_id(view.id) && request.create.layers.size() == 1);
    }
    for (const auto& mount : request.create.mounts) {
      CHECK(node::is_volume_id(mount.volume) && node::is_mount_path(mount.path));
    }
  }
  CHECK(request.volume.volume.empty() || node::is_volume_id(request.volume.volume));
  CHECK(request.kind != RequestKind::kDetachVolume ||
        (node::is_cell_id(request.detach.id) && node::is_mount_path(request.detach.mount.path)));
  CHECK(request.id.empty() || node::is_cell_id(request.id));
  CHECK(request.layer.empty() || node::is_layer_id(request.layer));
  CHECK((request.kind != RequestKind::kSnapshot && request.kind != RequestKind::kRestore) ||
        (node::is_cell_id(request.snapshot.id) && node::is_layer_id(request.snapshot.snapshot)));
  CHECK(request.kind != RequestKind::kDestroy || node::is_cell_id(request.destroy.id));
  CHECK(request.kind != RequestKind::kCommitLayer ||
        (node::is_cell_id(request.commit.id) && node::is_layer_id(request.commit.layer)));
}

}  // namespace

void node_request(std::string_view input) {
  const auto request = node::decode_request(input);
  check_canonical(input, request,
                  [input](const auto& decoded) { return encode(decoded, input.size() > 1); });
  if (request) {
    check_names(*request);
  }
}

Seeds node_request_seeds() {
  return {
      node::encode(node::CreateRequest{.id = "rs-1",
                                       .hostname = "sandbox",
                                       .layers = {"a-1", "b_2"},
                                       .limits = {1U << 30, 500, 64, 1U << 30}}),
      node::encode(node::CreateRequest{
          .id = "build-1", .hostname = "b", .layers = {"empty-1"}, .host_network = true}),
      node::encode(node::CreateRequest{.id = "../x", .hostname = "-", .layers = {"."}}),
      node::encode(node::DestroyRequest{.id = "rs-1", .keep_upper = true}),
      node::encode(node::CommitRequest{.id = "build-1", .layer = "img-1"}),
      node::encode(node::CreateRequest{
          .id = "rs-2", .hostname = "s", .layers = {"a"}, .from_snapshot = "snap-1"}),
      node::encode(node::CreateRequest{
          .id = "rs-3", .hostname = "s", .layers = {"a"}, .mounts = {{"vol-1", "/data", true}}}),
      node::encode(node::CreateRequest{.id = "files-1",
                                       .hostname = "s",
                                       .layers = {"empty-1"},
                                       .mounts = {{"vol-1", "/volume"}},
                                       .mount_is_root = true}),
      node::encode_volume(RequestKind::kCreateVolume, {"vol-1", "vsnap-1", 1U << 30, 5, 6}),
      node::encode_volume(RequestKind::kRemoveVolume, {"vol-1"}),
      node::encode_volume(RequestKind::kVolumeUsage, {"vol-1"}),
      node::encode_volume(RequestKind::kSnapshotVolume, {"vol-1", "vsnap-1"}),
      node::encode_volume(RequestKind::kRestoreVolume, {"vol-1", "vsnap-1"}),
      node::encode_plain(RequestKind::kListVolumes),
      node::encode(node::DetachRequest{"rs-1", {"vol-1", "/data"}}),
      node::encode(RequestKind::kSnapshot, {"rs-1", "snap-1"}),
      node::encode(RequestKind::kRestore, {"rs-1", "snap-1", 1U << 30}),
      node::encode_with_id(RequestKind::kRemoveSnapshot, "snap-1"),
      node::encode_plain(RequestKind::kListSnapshots),
      node::encode_set_limits("rs-1", {1, 2, 3, 4}),
      node::encode_plain(RequestKind::kHello),
      node::encode_plain(RequestKind::kWatch),
      node::encode_plain(RequestKind::kList),
      node::encode_with_id(RequestKind::kList, ""),
      node::encode_with_id(RequestKind::kList, "rs-1"),
      node::encode_with_id(RequestKind::kUsage, "rs-1"),
      node::encode_with_id(RequestKind::kRemoveLayer, "img-1"),
      node::encode_with_id(RequestKind::kBuildBuiltin, "default")};
}

}  // namespace atl::fuzz
