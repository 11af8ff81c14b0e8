#include "node/protocol_volumes.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace atl::node {
namespace {

constexpr std::uint32_t kLeastMountBytes = 4 + 4 + 1;

void write_mount(ByteWriter& out, const Mount& mount) {
  out.string(mount.volume).string(mount.path).boolean(mount.read_only);
}

Mount read_mount(ByteReader& in) {
  Mount mount;
  mount.volume = in.string();
  mount.path = in.string();
  mount.read_only = in.boolean();
  return mount;
}

bool is_within(const std::string& path, const std::string& directory) {
  return path == directory || path.starts_with(directory + "/");
}

}  // namespace

bool is_volume_id(std::string_view text) {
  return is_cell_id(text) && text.starts_with(kVolumePrefix) && text.size() > kVolumePrefix.size();
}

bool is_mount_path(std::string_view path) {
  if (path.size() < 2 || path.size() > kMaxMountPathBytes || path.front() != '/' ||
      path.find('\0') != std::string_view::npos) {
    return false;
  }
  const auto parts = split(path.substr(1), '/');
  return std::ranges::none_of(parts,
                              [](std::string_view part) {
                                return part.empty() || part == "." || part == ".." ||
                                       part.size() > 255;
                              }) &&
         std::ranges::none_of(std::array{"proc", "sys", "dev"},
                              [&](std::string_view name) { return parts.front() == name; });
}

Result<> check_mounts(const std::vector<Mount>& mounts) {
  if (mounts.size() > kMaxMountsPerCell) {
    return fail(Code::kInvalidArgument,
                concat("a sandbox has at most ", kMaxMountsPerCell, " volumes"));
  }
  for (auto mount = mounts.begin(); mount != mounts.end(); ++mount) {
    if (!is_volume_id(mount->volume)) {
      return fail(Code::kInvalidArgument, "a volume id is vol- and letters, digits and dashes");
    }
    if (!is_mount_path(mount->path)) {
      return fail(Code::kInvalidArgument,
                  "a mount point is an absolute path without . and .., not / and not in /proc, "
                  "/sys or /dev");
    }
    if (std::any_of(mounts.begin(), mount, [&](const Mount& other) {
          return is_within(mount->path, other.path) || is_within(other.path, mount->path);
        })) {
      return fail(Code::kInvalidArgument, concat("mount point ", to_valid_utf8(mount->path),
                                                 " is given twice, or lies within another one"));
    }
  }
  return {};
}

std::string encode_volume(RequestKind kind, const VolumeRequest& request) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(kind)).string(request.volume).string(request.snapshot);
  out.u64(request.disk_bytes).u32(request.uid).u32(request.gid);
  return std::move(out).bytes();
}

std::string encode(const DetachRequest& request) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(RequestKind::kDetachVolume)).string(request.id);
  write_mount(out, request.mount);
  return std::move(out).bytes();
}

namespace volumes {

void write_mounts(ByteWriter& out, const std::vector<Mount>& mounts) {
  out.u32(static_cast<std::uint32_t>(mounts.size()));
  for (const Mount& mount : mounts) {
    write_mount(out, mount);
  }
}

std::vector<Mount> read_mounts(ByteReader& in) {
  std::vector<Mount> mounts(in.count(kLeastMountBytes));
  for (Mount& mount : mounts) {
    mount = read_mount(in);
  }
  return mounts;
}

Result<> check(const VolumeRequest& request) {
  if (!is_volume_id(request.volume)) {
    return fail(Code::kInvalidArgument, "a volume id is vol- and letters, digits and dashes");
  }
  if (request.uid > kMaxPosixId || request.gid > kMaxPosixId) {
    return fail(Code::kInvalidArgument, concat("a user or group id is at most ", kMaxPosixId));
  }
  return {};
}

bool read(ByteReader& in, DecodedRequest& request) {
  switch (request.kind) {
    case RequestKind::kCreateVolume:
    case RequestKind::kRemoveVolume:
    case RequestKind::kVolumeUsage:
    case RequestKind::kSnapshotVolume:
    case RequestKind::kRestoreVolume:
      request.volume.volume = in.string();
      request.volume.snapshot = in.string();
      request.volume.disk_bytes = in.u64();
      request.volume.uid = in.u32();
      request.volume.gid = in.u32();
      return true;
    case RequestKind::kDetachVolume:
      request.detach.id = in.string();
      request.detach.mount = read_mount(in);
      return true;
    case RequestKind::kListVolumes:
      request.layer = in.remaining() > 0 ? in.string() : std::string{};
      return true;
    default:
      return false;
  }
}

}  // namespace volumes
}  // namespace atl::node
