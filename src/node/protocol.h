// What atolld may ask of the root process, and nothing more.
//
// SOCK_SEQPACKET unix socket, one datagram per message, encoded with base/bytes.h: a request is
// u8 kind + payload, an answer is u8 status (0 ok, else an error code) + payload. A connection
// carries one request at a time; atolld keeps several open. kWatch turns its connection into a
// one-way stream of Event datagrams. The node validates every field as if the sender were
// compromised: the worst atolld can do is what this list can express, on cells of this instance.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace atl::node {

inline constexpr std::size_t kMaxMessageBytes = std::size_t{256} * 1024;
inline constexpr std::size_t kMaxLayersPerCell = 64;
// Two whole roots: as many layers and an upper each.
inline constexpr std::size_t kMaxViewsPerCell = 2 * (kMaxLayersPerCell + 1);
inline constexpr std::uint64_t kMaxMemoryBytes = 1ULL << 42;
inline constexpr std::uint32_t kMaxCpuMillis = 1024 * 1000;
inline constexpr std::uint32_t kMaxProcesses = 1 << 20;
inline constexpr std::uint64_t kMaxDiskBytes = 1ULL << 50;
// A list of cells or layers comes in pages of this size; a shorter page is the last one.
inline constexpr std::size_t kCellsPerPage = 512;
inline constexpr std::size_t kLayersPerPage = 512;  // of snapshots too
// A layer that every node has: an empty tree, for a cell that makes an image from nothing.
inline constexpr const char* kEmptyLayer = "empty-1";
// Cells that make layers. Nobody continues them: they do not outlive a stop of the node.
inline constexpr std::string_view kBuildCellPrefix = "build-";
// Cells that only serve the files of a volume. They do not outlive a stop of the node either.
inline constexpr std::string_view kFilesCellPrefix = "files-";
inline bool is_passing_cell(std::string_view id) {
  return id.starts_with(kBuildCellPrefix) || id.starts_with(kFilesCellPrefix);
}
// A volume is stored like a cell's disk; its id says that it is none.
inline constexpr std::string_view kVolumePrefix = "vol-";
inline constexpr std::size_t kMaxMountsPerCell = 16;
inline constexpr std::size_t kMaxMountPathBytes = 1024;
inline constexpr std::uint32_t kMaxPosixId = 65535;

enum class RequestKind : std::uint8_t {
  kHello = 1,
  kCreate = 2,
  kDestroy = 3,
  kList = 4,
  kUsage = 5,
  kSetLimits = 6,
  kFreeze = 7,
  kThaw = 8,
  kWatch = 9,
  kCommitLayer = 10,
  kRemoveLayer = 11,
  kListLayers = 12,
  kBuildBuiltin = 13,
  kSnapshot = 14,
  kRestore = 15,
  kRemoveSnapshot = 16,
  kListSnapshots = 17,
  kDump = 18,
  kCommitDisks = 19,
  kOpenNetwork = 20,
  kOpenSocket = 21,
  kCreateVolume = 40,
  kRemoveVolume = 41,
  kListVolumes = 42,
  kVolumeUsage = 43,
  kSnapshotVolume = 44,
  kRestoreVolume = 45,
  kDetachVolume = 46,
};

// 0 means: no limit.
struct Limits {
  std::uint64_t memory_bytes = 0;
  std::uint32_t cpu_millis = 0;
  std::uint32_t process_count = 0;
  std::uint64_t disk_bytes = 0;
};

// A volume at a place of a cell.
struct Mount {
  std::string volume;
  std::string path;  // see is_mount_path
  bool read_only = false;
};

// Something that a cell may look at, read-only, in its directory /views/<index>.
struct View {
  enum class Kind : std::uint8_t { kLayer = 1, kSnapshot = 2 };
  Kind kind = Kind::kLayer;
  std::string id;
  bool operator==(const View&) const = default;
};

struct CreateRequest {
  std::string id;  // [a-z0-9-]{1,63}
  std::string hostname;
  std::vector<std::string> layers;  // layer ids, topmost first
  Limits limits;
  // false: a fresh upper, it must not exist yet. true: continue on the existing upper.
  bool existing_upper = false;
  // Not empty: the fresh upper begins as this snapshot.
  std::string from_snapshot;
  // The snapshot itself becomes the upper: it is no longer one.
  bool takes_snapshot = false;
  // Durable not with the answer but with that of a later kCommitDisks: one for many.
  bool commit_later = false;
  // Begin with the processes of the dump that belongs to the disk: an existing one's own, if it has
  // one that can be restored (else the answer says why not), or the snapshot's, which must have
  // one.
  bool restore_memory = false;
  // /tmp is in memory: it does not outlive the processes.
  bool ephemeral_tmp = false;
  // RUN of a build whose operator allowed it the host's network; only a build cell may have this.
  bool host_network = false;
  // A build cell with a way out like a sandbox's; others have one anyway, or never.
  bool egress = false;
  std::vector<Mount> mounts;  // none within another
  // The cell's guest sees the only mount as its whole file system.
  bool mount_is_root = false;
  // Only of a build cell that stands on the empty layer alone: what it looks at is hostile.
  std::vector<View> views;
  // Nobody waits for this cell: it is made ahead, and lets those that somebody waits for pass.
  bool in_background = false;
};

struct DestroyRequest {
  std::string id;
  bool keep_upper = false;
  bool sync = false;       // what it wrote is on disk when this is answered
  bool keep_dump = false;  // with keep_upper: memory on disk stays too
  // Nobody waits for it, and there may be thousands: they go a few at once, after each other, and
  // wait for their turn without a deadline. Only the client's business, so it is not sent.
  bool in_background = false;
};

// Of the network of a cell, made inside it; non-blocking. What each gets: runtime/room.h. As
// descriptors of the answer's message, in this order.
struct NetworkSockets {
  Fd tcp;
  Fd udp;
  Fd dns;
};
inline constexpr std::size_t kNetworkSocketCount = 3;

enum class SocketType : std::uint8_t { kStream = 1, kDatagram = 2 };
enum class SocketFamily : std::uint8_t { kInet4 = 4, kInet6 = 6 };

// kOpenSocket: one bare socket of the cell's network, non-blocking, neither bound nor connected.
struct SocketRequest {
  std::string id;
  SocketType type = SocketType::kStream;
  SocketFamily family = SocketFamily::kInet4;
};

struct CellInfo {
  std::string id;
  bool running = false;
  bool frozen = false;
  std::string guest_socket;  // path atolld connects to; the node made it, the guest listens on it
  bool dumped = false;       // its memory is on disk
  bool restored = false;     // answer of a create: with the processes of a dump
  std::string reason;        // why not, when there was a dump
  // Answer of a create: its network, for whoever takes it; null when it has none.
  std::shared_ptr<NetworkSockets> network;
};

struct Usage {
  std::uint64_t memory_bytes = 0;  // without file cache that can go at once
  std::uint64_t memory_total_bytes = 0;
  std::uint64_t memory_peak_bytes = 0;  // 0: the kernel does not say
  std::uint64_t cpu_nanoseconds = 0;
  std::uint32_t process_count = 0;
  std::uint64_t disk_bytes = 0;
};

struct CommitRequest {
  std::string id;     // a cell; it ends
  std::string layer;  // a layer id that is not taken; the cell's upper becomes it
};

// kSnapshot: the cell's upper, as it is now, becomes the snapshot; a running cell stands still
// meanwhile. kRestore: the upper of a cell that does not run becomes what the snapshot is.
struct SnapshotRequest {
  std::string id;                // a cell
  std::string snapshot;          // named like a layer
  std::uint64_t disk_bytes = 0;  // kRestore: the limit of the restored disk
  bool memory = false;           // kSnapshot: with all processes
  bool passing = false;          // kSnapshot: made to be taken by a cell, or to go soon
};

struct SnapshotAnswer {
  std::uint64_t stopped_nanoseconds = 0;  // how long the cell stood still
};

// kCreateVolume: a new one, which begins as the snapshot when one is named; else empty, its root
// owned by uid and gid. kSnapshotVolume, kRestoreVolume: like those of cells. Durable.
struct VolumeRequest {
  std::string volume;
  std::string snapshot;
  std::uint64_t disk_bytes = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// The volume leaves the tree of a cell that runs.
struct DetachRequest {
  std::string id;
  Mount mount;
};

struct DumpAnswer {
  std::uint64_t bytes = 0;
};

// A builtin template.
struct TemplateInfo {
  enum class State : std::uint8_t { kReady = 1, kAbsent = 2, kBuilding = 3 };
  std::string name;                 // "default"
  std::vector<std::string> layers;  // when ready
  State state = State::kReady;
};

struct HelloAnswer {
  std::string version;
  std::string runtime;  // "namespaces"
  bool kernel_boundary = false;
  bool memory_dump = false;
  std::string memory_dump_reason;  // why not
  bool live_fork = false;
  bool freeze = false;
  bool disk_quota = false;
  bool egress = false;          // sandboxes have a way out, through whoever opens their network
  bool egress_ipv6 = false;     // also over IPv6
  std::string egress_reason;    // why not
  std::string storage_backend;  // "btrfs" | "reflink" | "copy"
  std::uint64_t pool_total_bytes = 0;  // no disk can be larger
  std::vector<TemplateInfo> templates;
};

struct Event {
  // The last three are about a builtin template, for each kBuildBuiltin that had something to do.
  enum class Kind : std::uint8_t {
    kCellDied = 1,
    kTemplateProgress = 2,
    kTemplateReady = 3,
    kTemplateFailed = 4,
  };
  Kind kind = Kind::kCellDied;
  std::string id;    // of the cell; the name of the template
  std::string text;  // the step under way; why it failed
};

// Requests without fields (kHello, kWatch, kCommitDisks) are the kind byte alone; kUsage, kFreeze,
// kThaw, kDump and kOpenNetwork carry an id; kList may carry one: the last id of the page before.
// kRemoveLayer
// and kListLayers are the same with layer ids, kBuildBuiltin carries a template's name and is
// answered at once; the outcome comes as events. kRemoveSnapshot, kListSnapshots and kListVolumes
// are like those of layers. kWatch is answered with an empty ok once events will come, then the
// events follow.
std::string encode(const CreateRequest& request);
std::string encode(const DestroyRequest& request);
std::string encode(const CommitRequest& request);
std::string encode(RequestKind kind, const SnapshotRequest& request);
std::string encode_volume(RequestKind kind, const VolumeRequest& request);
std::string encode(const DetachRequest& request);
std::string encode(const SocketRequest& request);
std::string encode_set_limits(std::string_view id, const Limits& limits);
std::string encode_plain(RequestKind kind);
std::string encode_with_id(RequestKind kind, std::string_view id);

struct DecodedRequest {
  RequestKind kind = RequestKind::kHello;
  CreateRequest create;
  DestroyRequest destroy;
  CommitRequest commit;
  SnapshotRequest snapshot;
  VolumeRequest volume;  // kRemoveVolume, kVolumeUsage: the id alone
  DetachRequest detach;
  SocketRequest socket;
  std::string id;     // of a cell; kList: empty or the last id seen
  std::string layer;  // kRemoveLayer; kListLayers: empty or the last id seen;
                      // the same of snapshots
  std::string name;   // kBuildBuiltin
  Limits limits;      // kSetLimits
};
// [a-z0-9-]{1,63}: safe as a file name, a cgroup name and a part of a socket path.
bool is_cell_id(std::string_view text);
// [a-z0-9._-]{1,128}, not beginning with a dot or a dash: safe as a file name.
bool is_layer_id(std::string_view text);
// A cell id with kVolumePrefix.
bool is_volume_id(std::string_view text);
// Where a volume may be mounted: absolute, nothing to resolve in it, and not what the kernel gives.
bool is_mount_path(std::string_view path);
// Valid, few enough, and none within another.
Result<> check_mounts(const std::vector<Mount>& mounts);
// Decodes and validates ranges, counts and character sets.
Result<DecodedRequest> decode_request(std::string_view datagram);

std::string encode_ok(std::string_view payload = {});
std::string encode_error(const Error& error);
// The payload of an ok answer, or the error it carries.
Result<std::string> decode_answer(std::string_view datagram);

std::string encode_payload(const CellInfo& info);
std::string encode_payload(const std::vector<CellInfo>& infos);
std::string encode_payload(const Usage& usage);
std::string encode_payload(const SnapshotAnswer& answer);
std::string encode_payload(const DumpAnswer& answer);
std::string encode_payload(const HelloAnswer& hello);
std::string encode_payload(const std::vector<std::string>& names);
std::string encode_event(const Event& event);
Result<CellInfo> decode_cell(std::string_view payload);
Result<std::vector<CellInfo>> decode_cells(std::string_view payload);
Result<Usage> decode_usage(std::string_view payload);
Result<SnapshotAnswer> decode_snapshot(std::string_view payload);
Result<DumpAnswer> decode_dump(std::string_view payload);
Result<HelloAnswer> decode_hello(std::string_view payload);
Result<std::vector<std::string>> decode_names(std::string_view payload);
Result<Event> decode_event(std::string_view datagram);

}  // namespace atl::node
