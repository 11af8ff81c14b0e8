// The isolation interface: one cell is one running sandbox computer.
//
// A Runtime turns a CellSpec (a root filesystem, limits, an identity) into a running guest agent,
// and gives back a CellRecord, plain data that is enough to find the cell again after this process
// died. It knows nothing of templates, tenants or the API. All calls block; they are safe to call
// from several threads for different cells. Only code in runtime/ knows which backend it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "base/strings.h"

namespace atl::runtime {

// Whether memory can go to disk and come back.
struct MemoryDumps {
  bool possible = false;
  std::string reason;  // why not, and what to do
};

// Whether cells have a way out: sockets inside that get everything they send to the world.
struct Egress {
  bool possible = false;
  bool ipv6 = false;
  std::string reason;  // why not, and what to do
};

// What a backend can promise; the API shows it as it is.
struct Capabilities {
  std::string name;              // "namespaces"
  bool kernel_boundary = false;  // an own kernel between sandbox and host
  MemoryDumps memory_dump;
  Egress egress;
  bool live_fork = false;
  bool freeze = false;
  bool memory_limit = false;
  bool cpu_limit = false;
  bool process_limit = false;
  bool landlock = false;
};

struct Limits {
  std::uint64_t memory_bytes = 0;   // 0: none
  std::uint32_t cpu_millis = 0;     // thousandths of a core; 0: none
  std::uint32_t process_count = 0;  // 0: none
};

// A host directory that a cell sees at a place of its own. Its ids on disk are the cell's;
// set-user-id programs and device nodes in it are dead.
struct VolumeMount {
  std::string source_dir;  // absolute host path
  std::string target;      // absolute, nothing to resolve in it; made when missing
  bool read_only = false;
};
inline constexpr std::size_t kMaxVolumeMounts = 16;

inline constexpr std::string_view kDumpRefused = "dump_refused";
inline constexpr std::string_view kDumpCutShort = "dump_cut_short";

struct CellSpec {
  std::string id;                       // [a-z0-9-]{1,63}
  std::string hostname;                 // DNS label
  std::vector<std::string> lower_dirs;  // absolute host paths, topmost layer first, 1..64
  std::string upper_dir;                // absolute host path; holds "upper" and "work"
  std::uint32_t uid_base = 0;           // host id of the sandbox's uid/gid 0; 65536 ids follow
  Limits limits;
  // Neither one within another. Resolved by the cell's own root in the cell's own tree.
  std::vector<VolumeMount> mounts;
  // The guest sees the first of them as its whole file system: for file operations alone.
  bool mount_is_root = false;
  // Absolute host paths, shown read-only at /views/0, /views/1, ...: for looking at, never for
  // running (nosuid, nodev, noexec).
  std::vector<std::string> view_dirs;
  // A way out, where the host can give one: without it, and on such a host, the cell's network is
  // its own loopback device and nothing else.
  bool egress = false;
  // The host's network instead of an own one without any: for code its operator trusts.
  bool host_network = false;
  bool ephemeral_tmp = false;  // /tmp in memory, counted as the cell's
  // Its files say nothing about it: what it makes is for others.
  bool anonymous = false;
  // A path for the guest's listening unix socket (mode 0600, the node's). It is made in the cell's
  // own network namespace, and the guest gets it as descriptor 3.
  std::string guest_socket;
  // Not empty: the directory of a dump, whose processes the cell begins with instead of a guest of
  // its own. REQUIRES: the disk is as it was when the dump was made. When it can never be used the
  // create fails with the reason kDumpRefused; after any other failure it may be tried again.
  std::string from_dump;
  // Called when everything of the dump is restored and before any of it runs. When it fails, so
  // does the create.
  std::function<Result<>()> before_resume;
};

// Enough to find a cell again. `start_time` guards against pid reuse.
struct CellRecord {
  std::string id;
  std::int32_t pid = 0;          // host pid of the guest (PID 1 inside)
  std::uint64_t start_time = 0;  // field 22 of /proc/<pid>/stat
};

struct DumpSpec {
  CellRecord record;
  std::string directory;     // an empty one that only root can enter
  std::string guest_socket;  // as in its CellSpec
  // Beside what much memory takes: a dump that is not done by then is cut short. The reason is
  // kDumpCutShort, and the cell, which is frozen, must end: foreign code may be in its processes.
  std::chrono::seconds time_limit{60};
  bool time_for_memory = true;
};

// Made inside a cell's network, non-blocking, dual-stack where the kernel has IPv6. They keep
// nothing of the cell alive but its network. There is no other way out of a cell: who has these
// decides.
struct NetworkSockets {
  Fd tcp;  // listens; gets every connection to an address outside, which is its own address
  Fd udp;  // gets every datagram to one, with the original destination as ancillary data
  Fd dns;  // bound to port 53 of every address, datagrams
};
enum class SocketType : std::uint8_t { kStream, kDatagram };
enum class SocketFamily : std::uint8_t { kInet4, kInet6 };

struct Cell {
  CellRecord record;
  Fd pidfd;  // readable when the cell is dead
  // Answer of a create with a way out. Made before anything of the cell ran, so nothing of it can
  // have taken their ports.
  std::optional<NetworkSockets> network;
};

struct Usage {
  std::uint64_t memory_bytes = 0;  // without file cache that can go at once
  std::uint64_t memory_total_bytes = 0;
  std::uint64_t memory_peak_bytes = 0;  // 0: the kernel does not say
  std::uint64_t cpu_nanoseconds = 0;
  std::uint32_t process_count = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const Capabilities& capabilities() const = 0;
  // On success the guest has been exec'ed: its socket accepts (or will, nothing else can fail).
  // On failure nothing of the cell is left.
  virtual Result<Cell> create(const CellSpec& spec) = 0;
  // Finds a cell that an earlier process created. kNotFound when it no longer runs.
  virtual Result<Cell> adopt(const CellRecord& record) = 0;
  // Kills every process of the cell, waits for them, removes its cgroups. Idempotent; also
  // cleans up what a half-done create of a killed process left.
  virtual Result<> destroy(const CellRecord& record) = 0;
  // The same of a cell whose disk nobody uses again: what its file systems have to write when they
  // go, they write later. REQUIRES: the next on that disk, if any, is its removal.
  virtual Result<> destroy_with_disk(const CellRecord& record) { return destroy(record); }
  virtual Result<> set_limits(const std::string& id, const Limits& limits) = 0;
  virtual Result<Usage> usage(const std::string& id) = 0;
  virtual Result<> freeze(const std::string& id) = 0;
  virtual Result<> thaw(const std::string& id) = 0;
  virtual Result<bool> is_frozen(const std::string& id) = 0;
  // Takes a volume out of the cell's tree, also while it is frozen. Who has files of it open keeps
  // them. kNotFound when it is not at its target (any more).
  virtual Result<> detach(const CellRecord& record, const VolumeMount& mount) = 0;
  // The sockets of a cell once more, when nobody has those of its create any more. Whatever the
  // cell does, and also while it is frozen, this does not wait for it.
  virtual Result<NetworkSockets> open_network(const CellRecord& record) {
    return fail(Code::kUnimplemented, concat("cell ", record.id, " has no network"), "no_egress");
  }
  // A bare socket of the cell's network, non-blocking; it may be bound to any address there.
  virtual Result<Fd> open_socket(const CellRecord& record, SocketType /*type*/,
                                 SocketFamily /*family*/) {
    return fail(Code::kUnimplemented, concat("cell ", record.id, " has no network"), "no_egress");
  }
  // Writes the memory of all processes of a cell to disk, after the guest has closed its
  // connections, and returns its size. The cell is left frozen with all it had, also when its
  // processes cannot be dumped (kFailedPrecondition says why).
  virtual Result<std::uint64_t> dump(const DumpSpec& spec) {
    return fail(Code::kUnimplemented, concat("cell ", spec.record.id, " cannot be dumped here"));
  }
  // Ids of all cells of this instance that have kernel objects (cgroups), alive or not.
  virtual Result<std::vector<std::string>> list() = 0;
  // Removes the instance's own kernel objects. REQUIRES: no cell is left.
  virtual Result<> close() = 0;
};

struct NamespacesOptions {
  std::string instance;        // [a-z0-9]{1,16}: names this installation's cgroups on the host
  std::string guest_binary;    // path of the static guest executable
  std::string stage_dir;       // an empty directory of ours; mount points inside private namespaces
  std::string criu_directory;  // where tools/setup-criu put it; may be missing
  std::string criu_adapter;    // the library criu is loaded with; may be missing
};
Result<std::unique_ptr<Runtime>> open_namespaces_runtime(const NamespacesOptions& options);

// Host checks for `atoll doctor` and for errors that say what to change.
struct HostCheck {
  enum class Verdict : std::uint8_t { kOk, kDegraded, kMissing };
  std::string name;  // "user namespaces"
  Verdict verdict = Verdict::kOk;
  std::string finding;  // what was seen
  std::string advice;   // how to fix it, empty when fine
};
std::vector<HostCheck> check_host();
// Beside the others, because where it is depends on how the server is started.
HostCheck check_memory_dumps(const NamespacesOptions& options);

}  // namespace atl::runtime
