#include "node/protocol.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/strings.h"
#include "node/protocol_volumes.h"

namespace atl::node {
namespace {

constexpr std::size_t kMaxIdBytes = 63;
constexpr std::size_t kMaxLayerIdBytes = 128;

bool is_small_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_hostname(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIdBytes && text.front() != '-' && text.back() != '-' &&
         std::ranges::all_of(text, [](char c) {
           return is_small_alphanumeric(c) || (c >= 'A' && c <= 'Z') || c == '-';
         });
}

Result<> check_id(std::string_view id) {
  if (!is_cell_id(id) || id.starts_with(kVolumePrefix)) {
    return fail(
        Code::kInvalidArgument,
        concat("a cell id is 1 to 63 of a-z, 0-9 and -, not beginning with ", kVolumePrefix));
  }
  return {};
}

Result<> check_layer_id(std::string_view id) {
  if (!is_layer_id(id)) {
    return fail(Code::kInvalidArgument,
                "a layer id is 1 to 128 of a-z, 0-9, '.', '_' and '-', and starts with a letter, "
                "a digit or '_'");
  }
  return {};
}

Result<> check_limits(const Limits& limits) {
  if (limits.memory_bytes > kMaxMemoryBytes) {
    return fail(Code::kInvalidArgument,
                concat("a memory limit is at most ", format_quantity(kMaxMemoryBytes)));
  }
  if (limits.cpu_millis > kMaxCpuMillis) {
    return fail(Code::kInvalidArgument,
                concat("a cpu limit is at most ", kMaxCpuMillis, " thousandths of a core"));
  }
  if (limits.process_count > kMaxProcesses) {
    return fail(Code::kInvalidArgument, concat("a process limit is at most ", kMaxProcesses));
  }
  if (limits.disk_bytes > kMaxDiskBytes) {
    return fail(Code::kInvalidArgument,
                concat("a disk limit is at most ", format_quantity(kMaxDiskBytes)));
  }
  return {};
}

Result<> check_views(const CreateRequest& request) {
  if (request.views.empty()) {
    return {};
  }
  const bool bare = request.layers.size() == 1 && request.layers.front() == kEmptyLayer &&
                    request.from_snapshot.empty() && !request.existing_upper &&
                    !request.host_network && !request.egress;
  if (!bare || !request.id.starts_with(kBuildCellPrefix)) {
    return fail(Code::kInvalidArgument, "only a build cell with nothing in it may have views");
  }
  if (request.views.size() > kMaxViewsPerCell) {
    return fail(Code::kInvalidArgument, concat("a cell has at most ", kMaxViewsPerCell, " views"));
  }
  for (const View& view : request.views) {
    if (view.kind != View::Kind::kLayer && view.kind != View::Kind::kSnapshot) {
      return fail(Code::kInvalidArgument, "a view is of a layer or of a snapshot");
    }
    TRY_DO(check_layer_id(view.id));
  }
  return {};
}

Result<> check_create(const CreateRequest& request) {
  TRY_DO(check_id(request.id));
  if (!is_hostname(request.hostname)) {
    return fail(Code::kInvalidArgument, "a host name is 1 to 63 letters, digits and inner dashes");
  }
  if (request.layers.empty() || request.layers.size() > kMaxLayersPerCell) {
    return fail(Code::kInvalidArgument, concat("a cell has 1 to ", kMaxLayersPerCell, " layers"));
  }
  for (const std::string& layer : request.layers) {
    TRY_DO(check_layer_id(layer));
  }
  if (!request.from_snapshot.empty()) {
    TRY_DO(check_layer_id(request.from_snapshot));
    if (request.existing_upper) {
      return fail(Code::kInvalidArgument, "a disk that exists cannot begin as a snapshot");
    }
  }
  if (request.takes_snapshot && (request.from_snapshot.empty() || request.restore_memory)) {
    return fail(Code::kInvalidArgument, "only a snapshot without memory is taken");
  }
  if (request.commit_later && request.from_snapshot.empty()) {
    return fail(Code::kInvalidArgument, "only a disk that begins as a snapshot is committed");
  }
  if (request.restore_memory && !request.existing_upper && request.from_snapshot.empty()) {
    return fail(Code::kInvalidArgument, "a new disk has no memory to restore");
  }
  if (request.host_network && !request.id.starts_with(kBuildCellPrefix)) {
    return fail(Code::kInvalidArgument, "only the cell of a build may use the host's network");
  }
  if (request.egress && (!request.id.starts_with(kBuildCellPrefix) || request.host_network)) {
    return fail(Code::kInvalidArgument, "only the cell of a build may ask for a way out");
  }
  TRY_DO(check_mounts(request.mounts));
  if (request.mount_is_root &&
      (request.mounts.size() != 1 || !request.id.starts_with(kFilesCellPrefix))) {
    return fail(Code::kInvalidArgument, "only a cell for files has a volume as its root");
  }
  TRY_DO(check_views(request));
  return check_limits(request.limits);
}

// Cells that pass have no network: nothing of them is to go anywhere.
Result<> check_network(std::string_view id) {
  TRY_DO(check_id(id));
  if (is_passing_cell(id)) {
    return fail(Code::kInvalidArgument, "a cell of a build or of files has no network");
  }
  return {};
}

Result<> check_socket(const SocketRequest& request) {
  TRY_DO(check_network(request.id));
  if (request.type != SocketType::kStream && request.type != SocketType::kDatagram) {
    return fail(Code::kInvalidArgument, "a socket is for streams or for datagrams");
  }
  if (request.family != SocketFamily::kInet4 && request.family != SocketFamily::kInet6) {
    return fail(Code::kInvalidArgument, "a socket is of IPv4 or of IPv6");
  }
  return {};
}

void write_limits(ByteWriter& out, const Limits& limits) {
  out.u64(limits.memory_bytes)
      .u32(limits.cpu_millis)
      .u32(limits.process_count)
      .u64(limits.disk_bytes);
}

// Members are read one statement at a time: the order of reads is the format.
Limits read_limits(ByteReader& in) {
  Limits limits;
  limits.memory_bytes = in.u64();
  limits.cpu_millis = in.u32();
  limits.process_count = in.u32();
  limits.disk_bytes = in.u64();
  return limits;
}

CreateRequest read_create(ByteReader& in) {
  CreateRequest request;
  request.id = in.string();
  request.hostname = in.string();
  request.layers = in.strings();
  request.limits = read_limits(in);
  request.existing_upper = in.boolean();
  request.from_snapshot = in.string();
  request.takes_snapshot = in.boolean();
  request.restore_memory = in.boolean();
  request.host_network = in.boolean();
  request.egress = in.boolean();
  request.ephemeral_tmp = in.boolean();
  request.commit_later = in.boolean();
  request.mounts = volumes::read_mounts(in);
  request.mount_is_root = in.boolean();
  for (std::uint32_t left = in.count(5); left > 0; --left) {
    View view;
    view.kind = static_cast<View::Kind>(in.u8());
    view.id = in.string();
    request.views.push_back(std::move(view));
  }
  request.in_background = in.boolean();
  return request;
}

ByteWriter begin(RequestKind kind) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(kind));
  return out;
}

Result<> check_decoded(const DecodedRequest& request) {
  switch (request.kind) {
    case RequestKind::kHello:
    case RequestKind::kCommitDisks:
    case RequestKind::kWatch:
      return {};
    case RequestKind::kList:
      return request.id.empty() ? Result<>{} : check_id(request.id);
    case RequestKind::kCreate:
      return check_create(request.create);
    case RequestKind::kDestroy:
      return check_id(request.destroy.id);
    case RequestKind::kSetLimits:
      TRY_DO(check_id(request.id));
      return check_limits(request.limits);
    case RequestKind::kUsage:
    case RequestKind::kFreeze:
    case RequestKind::kThaw:
    case RequestKind::kDump:
      return check_id(request.id);
    case RequestKind::kOpenNetwork:
      return check_network(request.id);
    case RequestKind::kOpenSocket:
      return check_socket(request.socket);
    case RequestKind::kCommitLayer:
      TRY_DO(check_id(request.commit.id));
      return check_layer_id(request.commit.layer);
    case RequestKind::kRemoveLayer:
    case RequestKind::kRemoveSnapshot:
      return check_layer_id(request.layer);
    case RequestKind::kListLayers:
    case RequestKind::kListSnapshots:
      return request.layer.empty() ? Result<>{} : check_layer_id(request.layer);
    case RequestKind::kSnapshot:
    case RequestKind::kRestore:
      TRY_DO(check_id(request.snapshot.id));
      TRY_DO(check_limits({.disk_bytes = request.snapshot.disk_bytes}));
      return check_layer_id(request.snapshot.snapshot);
    case RequestKind::kBuildBuiltin:
      return check_layer_id(request.name);  // the same characters
    case RequestKind::kSnapshotVolume:
    case RequestKind::kRestoreVolume:
      TRY_DO(check_layer_id(request.volume.snapshot));
      [[fallthrough]];
    case RequestKind::kCreateVolume:
      TRY_DO(request.volume.snapshot.empty() ? Result<>{}
                                             : check_layer_id(request.volume.snapshot));
      TRY_DO(check_limits({.disk_bytes = request.volume.disk_bytes}));
      [[fallthrough]];
    case RequestKind::kRemoveVolume:
    case RequestKind::kVolumeUsage:
      return volumes::check(request.volume);
    case RequestKind::kListVolumes:
      return request.layer.empty() ? Result<>{} : check_layer_id(request.layer);
    case RequestKind::kDetachVolume:
      TRY_DO(check_id(request.detach.id));
      return check_mounts({request.detach.mount});
  }
  return fail(Code::kUnimplemented, "the node does not know this request");
}

}  // namespace

bool is_cell_id(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIdBytes &&
         std::ranges::all_of(text, [](char c) { return is_small_alphanumeric(c) || c == '-'; });
}

// A layer id becomes a path component: it neither is nor starts like ".." and has no slash.
bool is_layer_id(std::string_view text) {
  return !text.empty() && text.size() <= kMaxLayerIdBytes && text.front() != '.' &&
         text.front() != '-' && std::ranges::all_of(text, [](char c) {
           return is_small_alphanumeric(c) || c == '.' || c == '_' || c == '-';
         });
}

std::string encode(const CreateRequest& request) {
  ByteWriter out = begin(RequestKind::kCreate);
  out.string(request.id).string(request.hostname).strings(request.layers);
  write_limits(out, request.limits);
  out.boolean(request.existing_upper).string(request.from_snapshot);
  out.boolean(request.takes_snapshot);
  out.boolean(request.restore_memory).boolean(request.host_network);
  out.boolean(request.egress);
  out.boolean(request.ephemeral_tmp).boolean(request.commit_later);
  volumes::write_mounts(out, request.mounts);
  out.boolean(request.mount_is_root);
  out.u32(static_cast<std::uint32_t>(request.views.size()));
  for (const View& view : request.views) {
    out.u8(static_cast<std::uint8_t>(view.kind)).string(view.id);
  }
  out.boolean(request.in_background);
  return std::move(out).bytes();
}

std::string encode(const DestroyRequest& request) {
  ByteWriter out = begin(RequestKind::kDestroy);
  out.string(request.id).boolean(request.keep_upper).boolean(request.sync);
  out.boolean(request.keep_dump);
  return std::move(out).bytes();
}

std::string encode(const CommitRequest& request) {
  ByteWriter out = begin(RequestKind::kCommitLayer);
  out.string(request.id).string(request.layer);
  return std::move(out).bytes();
}

std::string encode(const SocketRequest& request) {
  ByteWriter out = begin(RequestKind::kOpenSocket);
  out.string(request.id).u8(static_cast<std::uint8_t>(request.type));
  out.u8(static_cast<std::uint8_t>(request.family));
  return std::move(out).bytes();
}

std::string encode_set_limits(std::string_view id, const Limits& limits) {
  ByteWriter out = begin(RequestKind::kSetLimits);
  out.string(id);
  write_limits(out, limits);
  return std::move(out).bytes();
}

std::string encode(RequestKind kind, const SnapshotRequest& request) {
  ByteWriter out = begin(kind);
  out.string(request.id).string(request.snapshot).u64(request.disk_bytes);
  out.boolean(request.memory).boolean(request.passing);
  return std::move(out).bytes();
}

std::string encode_plain(RequestKind kind) {
  return begin(kind).bytes();
}

std::string encode_with_id(RequestKind kind, std::string_view id) {
  ByteWriter out = begin(kind);
  out.string(id);
  return std::move(out).bytes();
}

Result<DecodedRequest> decode_request(std::string_view datagram) {
  if (datagram.size() > kMaxMessageBytes) {
    return fail(Code::kInvalidArgument, "the request is too large", "malformed");
  }
  ByteReader in{datagram};
  DecodedRequest request;
  request.kind = static_cast<RequestKind>(in.u8());
  switch (request.kind) {
    case RequestKind::kHello:
    case RequestKind::kCommitDisks:
    case RequestKind::kWatch:
      break;
    case RequestKind::kList:
      request.id = in.remaining() > 0 ? in.string() : std::string{};
      break;
    case RequestKind::kCreate:
      request.create = read_create(in);
      break;
    case RequestKind::kDestroy:
      request.destroy.id = in.string();
      request.destroy.keep_upper = in.boolean();
      request.destroy.sync = in.boolean();
      request.destroy.keep_dump = in.boolean();
      break;
    case RequestKind::kSetLimits:
      request.id = in.string();
      request.limits = read_limits(in);
      break;
    case RequestKind::kUsage:
    case RequestKind::kFreeze:
    case RequestKind::kThaw:
    case RequestKind::kDump:
    case RequestKind::kOpenNetwork:
      request.id = in.string();
      break;
    case RequestKind::kOpenSocket:
      request.socket.id = in.string();
      request.socket.type = static_cast<SocketType>(in.u8());
      request.socket.family = static_cast<SocketFamily>(in.u8());
      break;
    case RequestKind::kCommitLayer:
      request.commit.id = in.string();
      request.commit.layer = in.string();
      break;
    case RequestKind::kSnapshot:
    case RequestKind::kRestore:
      request.snapshot.id = in.string();
      request.snapshot.snapshot = in.string();
      request.snapshot.disk_bytes = in.u64();
      request.snapshot.memory = in.boolean();
      request.snapshot.passing = in.boolean();
      break;
    case RequestKind::kRemoveLayer:
    case RequestKind::kRemoveSnapshot:
      request.layer = in.string();
      break;
    case RequestKind::kListLayers:
    case RequestKind::kListSnapshots:
      request.layer = in.remaining() > 0 ? in.string() : std::string{};
      break;
    case RequestKind::kBuildBuiltin:
      request.name = in.string();
      break;
    default:
      if (!volumes::read(in, request)) {
        return fail(Code::kUnimplemented, "the node does not know this request");
      }
  }
  TRY_DO(in.finish());
  TRY_DO(check_decoded(request));
  return request;
}

}  // namespace atl::node
