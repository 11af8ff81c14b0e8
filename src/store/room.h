// What Atoll remembers, behind one narrow door.
//
// Values in, values out; every call blocks and is one transaction, or a part of one (together()).
// Calls are safe from any thread
// and are serialised inside. Every change of a sandbox is a compare-and-set on its (status,
// generation), and writes its outbox event in the same transaction, so nothing can be announced
// that did not happen, and nothing can happen unannounced. Only store/ knows which engine it is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace atl::store {

inline constexpr const char* kDefaultTeam = "default";
// The outbox keeps this many of the newest events.
inline constexpr std::int64_t kMaxOutboxEvents = 100'000;
inline constexpr std::size_t kMaxOutboxPage = 1000;
// Claim keys are kept this long, and at most so many of the newest.
inline constexpr std::int64_t kClaimKeyMs = 24LL * 3600 * 1000;
inline constexpr std::int64_t kMaxClaimKeys = 100'000;
// Deleted ancestors that are remembered, and restores of one sandbox; the newest of each.
inline constexpr std::int64_t kMaxDeletedAncestors = 5'000;
inline constexpr std::int64_t kMaxRestoresKept = 100;

enum class SandboxStatus : std::uint8_t { kStarting, kRunning, kPaused, kTerminating, kFailed };
std::string_view status_name(SandboxStatus status);  // "running"
std::optional<SandboxStatus> parse_status(std::string_view name);

struct Limits {
  std::uint64_t memory_bytes = 0;
  std::uint32_t cpu_millis = 0;
  std::uint32_t process_count = 0;
  std::uint64_t disk_bytes = 0;
  bool operator==(const Limits&) const = default;
};

using StringMap = std::map<std::string, std::string, std::less<>>;

// A volume at a place of a sandbox.
struct Mount {
  std::string volume_id;
  std::string path;
  bool read_only = false;
  bool operator==(const Mount&) const = default;
};

struct Sandbox {
  std::string id;
  std::string team_id = kDefaultTeam;
  std::string parent_id;  // the sandbox whose disk it began with; empty: a template's
  std::string name;       // empty: none; else no other sandbox of the team has it
  std::string template_name;
  std::vector<std::string> layers;  // of the template when it was claimed, topmost first
  SandboxStatus status = SandboxStatus::kStarting;
  std::int64_t generation = 1;  // which incarnation of the runtime; grows by one per restart
  StringMap env;
  Limits limits;
  bool auto_resume = true;
  bool ephemeral_tmp = false;    // /tmp does not outlive the processes
  std::int64_t ttl_seconds = 0;  // 0: none
  std::int64_t hard_ttl_seconds = 0;
  std::int64_t idle_ttl_seconds = 0;  // since somebody used it
  std::optional<UnixMillis> expires_at;
  std::optional<UnixMillis> hard_expires_at;
  StringMap labels;
  std::vector<Mount> mounts;
  std::string failure;  // why the status is kFailed
  UnixMillis claimed_at = 0;
  UnixMillis created_at = 0;
  UnixMillis updated_at = 0;
  bool operator==(const Sandbox&) const = default;
};

// What a row must look like for a change to apply.
struct Expected {
  SandboxStatus status = SandboxStatus::kStarting;
  std::int64_t generation = 1;
};
struct Transition {
  SandboxStatus status = SandboxStatus::kRunning;
  std::int64_t generation = 1;
  std::string failure;
  UnixMillis updated_at = 0;
  bool sets_expiry = false;  // `expires_at` replaces the row's
  std::optional<UnixMillis> expires_at;
};

enum class Durability : std::uint8_t {
  kQuick,    // survives a crash of this process
  kDurable,  // survives a power cut when the call returns
};

// One thing that happened, for metering, webhooks and audit to read later.
struct Event {
  std::string kind;  // "sandbox.running"
  std::string subject;
  std::string team_id = kDefaultTeam;
  UnixMillis at = 0;
  std::string detail;  // JSON, may be empty
};
// Where a sandbox came from that is no fresh one of a template.
struct Descent {
  std::string parent_id;  // a sandbox or a snapshot
  std::string cause;      // "fork", "claim"
};

// A document of a room above: a network policy, a service, a sealed credential. The store keeps it
// and does not look inside. One of a sandbox goes with it, in the same transaction.
struct Record {
  std::string kind;  // "network-policy"
  std::string id;    // unique in its kind
  std::string team_id = kDefaultTeam;
  std::string owner_id;  // a sandbox; empty: it stands alone
  std::int64_t version = 1;
  std::string body = "{}";  // JSON, or sealed text
  UnixMillis created_at = 0;
  UnixMillis updated_at = 0;
  bool operator==(const Record&) const = default;
};

struct NewSandbox {
  Sandbox sandbox;
  Event event;
  std::optional<Descent> descent = std::nullopt;
  std::vector<Record> records = {};
};

// A claim that must happen once, and what was answered to it. The same key of another team is
// another key.
struct ClaimKey {
  std::string team_id = kDefaultTeam;
  std::string key;
  std::string body_sha256;  // of what was asked
  std::string answer;       // opaque
  UnixMillis created_at = 0;
  bool operator==(const ClaimKey&) const = default;
};
struct OutboxEvent {
  std::int64_t sequence = 0;
  Event event;
};

struct Team {
  std::string id;
  std::string name;
  UnixMillis created_at = 0;
};

// A key is only ever known by the SHA-256 of its text.
struct ApiKey {
  std::string id;
  std::string team_id = kDefaultTeam;
  std::string name;
  std::string key_sha256;  // 32 raw bytes
  std::vector<std::string> roles;
  bool active = true;
  UnixMillis created_at = 0;
  std::optional<UnixMillis> expires_at;
  std::optional<UnixMillis> last_used_at;
  bool operator==(const ApiKey&) const = default;
};

// A disk as it was at one moment, and what a sandbox needs to go on from there.
struct Snapshot {
  std::string id;
  std::string team_id = kDefaultTeam;
  std::string sandbox_id;  // whose it was; that one may be gone
  std::string name;
  std::string description;
  std::string template_name;
  std::vector<std::string> layers;  // topmost first
  StringMap env;
  Limits limits;
  bool ephemeral_tmp = false;
  UnixMillis created_at = 0;
  std::optional<UnixMillis> expires_at;
  bool operator==(const Snapshot&) const = default;
};

// A member of a family: a sandbox or a snapshot with a parent or a child. One that is deleted is
// remembered as long as something that came from it is there.
struct Relative {
  enum class Kind : std::uint8_t { kSandbox, kSnapshot };
  struct Restore {  // of a sandbox, which then went on from there
    std::string snapshot_id;
    UnixMillis at = 0;
    bool operator==(const Restore&) const = default;
  };
  std::string id;
  std::string team_id = kDefaultTeam;
  Kind kind = Kind::kSandbox;
  std::string parent_id;  // empty: it began as its template; it may be forgotten
  std::string cause;      // "template", "fork", "claim", "snapshot", "import"
  std::string name;
  std::string template_name;
  UnixMillis created_at = 0;
  std::optional<UnixMillis> deleted_at;
  std::vector<Restore> restores;  // oldest first
  bool operator==(const Relative&) const = default;
};

// How many sandboxes may have a volume at once: one; any number, only to read; any number.
enum class AccessMode : std::uint8_t { kOne, kManyReaders, kMany };
std::string_view access_mode_name(AccessMode mode);  // "RWO", "ROX", "RWX"
std::optional<AccessMode> parse_access_mode(std::string_view name);

// A directory that lives on its own and that sandboxes mount.
struct Volume {
  std::string id;
  std::string team_id = kDefaultTeam;
  std::string user_id;           // the key that made it
  std::string source_volume_id;  // empty: none
  // False: it is being made for a sandbox, and nobody was promised it yet.
  bool ready = true;
  AccessMode access_mode = AccessMode::kOne;
  std::uint32_t posix_uid = 0;  // of what the API makes in it
  std::uint32_t posix_gid = 0;
  std::uint64_t disk_bytes = 0;
  std::string backend;          // "s0fs": our own disk
  std::string settings = "{}";  // JSON of the backend
  UnixMillis created_at = 0;
  UnixMillis updated_at = 0;
  bool operator==(const Volume&) const = default;
};

struct VolumeSnapshot {
  std::string id;
  std::string team_id = kDefaultTeam;
  std::string volume_id;
  std::string name;
  std::string description;
  std::uint64_t size_bytes = 0;
  UnixMillis created_at = 0;
  std::optional<UnixMillis> expires_at;
  bool operator==(const VolumeSnapshot&) const = default;
};

enum class TemplateState : std::uint8_t { kCreating, kReady, kFailed };
std::string_view template_state_name(TemplateState state);  // "ready"
std::optional<TemplateState> parse_template_state(std::string_view name);

struct Template {
  std::string name;
  std::string alias;                // empty: none
  std::vector<std::string> layers;  // topmost first
  std::string spec = "{}";          // JSON, as the client gave it
  bool builtin = true;
  UnixMillis updated_at = 0;
  std::string team_id = kDefaultTeam;
  TemplateState state = TemplateState::kReady;
  std::string failure;        // why the state is kFailed
  std::string config = "{}";  // JSON: what the image says about its processes
  UnixMillis created_at = 0;
  bool operator==(const Template&) const = default;
};

// One of several things that are done together.
struct StorePart {
  std::function<void()> run;  // calls the store
  bool durable = false;       // set when it made a durable change
};

class Store {
 public:
  virtual ~Store() = default;

  // Runs the parts in order on this thread and commits what they change at once: each can fail
  // alone, and an error of the whole means that none of them has happened. Durable ones are so
  // only after sync().
  virtual Result<> together(std::span<StorePart> parts) = 0;
  // Everything committed before it was called survives a power cut when it returns. Commits of
  // other threads go on meanwhile.
  virtual Result<> sync() = 0;

  // Can it answer?
  virtual Result<> check() = 0;

  virtual Result<std::vector<Team>> list_teams() = 0;

  // Inserts, or replaces the key with the same id. kAlreadyExists: another id has that hash.
  virtual Result<> put_api_key(const ApiKey& key) = 0;
  virtual Result<std::vector<ApiKey>> list_api_keys() = 0;
  virtual Result<> touch_api_key(const std::string& id, UnixMillis used_at) = 0;

  virtual Result<> put_template(const Template& value) = 0;  // inserts or replaces by name
  virtual Result<std::vector<Template>> list_templates() = 0;
  virtual Result<> remove_template(const std::string& name) = 0;  // idempotent, durable

  // All of them, their descent and the key, or nothing. kAlreadyExists when an id, a name or the
  // key is taken.
  virtual Result<> insert_sandboxes(const std::vector<NewSandbox>& sandboxes,
                                    const std::optional<ClaimKey>& key,
                                    Durability durability = Durability::kQuick) = 0;
  Result<> insert_sandbox(const Sandbox& sandbox, const Event& event) {
    return insert_sandboxes({{sandbox, event}}, std::nullopt);
  }
  // Nothing when there is none that is young enough at `now`.
  virtual Result<std::optional<ClaimKey>> find_claim_key(const std::string& team_id,
                                                         const std::string& key,
                                                         UnixMillis now) = 0;
  virtual Result<> remove_claim_key(const std::string& team_id, const std::string& key) = 0;
  // Nothing when there is no such key.
  virtual Result<> change_claim_answer(const std::string& team_id, const std::string& key,
                                       const std::string& answer) = 0;
  // kNotFound when there is no such row; kAborted (reason "changed") when it is not as expected.
  virtual Result<> change_sandbox(const std::string& id, const Expected& expected,
                                  const Transition& transition, const Event& event,
                                  Durability durability) = 0;
  // Writes what the owner may change (env, limits, auto_resume, ttls and deadlines, labels, mounts)
  // and updated_at, as `sandbox` has it. Fails as change_sandbox does.
  virtual Result<> configure_sandbox(const Sandbox& sandbox, const Expected& expected,
                                     const Event& event) = 0;
  virtual Result<> remove_sandbox(const std::string& id, const Expected& expected,
                                  const Event& event) = 0;
  virtual Result<Sandbox> find_sandbox(const std::string& id) = 0;
  virtual Result<std::vector<Sandbox>> list_sandboxes() = 0;

  // Durable, with the key. kAlreadyExists when the id or the key is taken.
  virtual Result<> insert_snapshot(const Snapshot& snapshot,
                                   const std::optional<ClaimKey>& key) = 0;
  Result<> insert_snapshot(const Snapshot& snapshot) {
    return insert_snapshot(snapshot, std::nullopt);
  }
  virtual Result<> remove_snapshot(const std::string& id,
                                   UnixMillis at) = 0;  // idempotent, durable
  virtual Result<std::vector<Snapshot>> list_snapshots() = 0;

  // Durable.
  virtual Result<> note_restore(const std::string& sandbox_id,
                                const Relative::Restore& restore) = 0;
  // Everybody of the team who has relatives, oldest first.
  virtual Result<std::vector<Relative>> list_relatives(const std::string& team_id) = 0;

  // Durable, all of these. A volume goes with its snapshots.
  virtual Result<> put_volume(const Volume& volume) = 0;  // inserts or replaces by id
  virtual Result<> remove_volume(const std::string& id) = 0;
  virtual Result<> insert_volume_snapshot(const VolumeSnapshot& snapshot) = 0;
  virtual Result<> remove_volume_snapshot(const std::string& id) = 0;
  virtual Result<std::vector<Volume>> list_volumes() = 0;
  virtual Result<std::vector<VolumeSnapshot>> list_volume_snapshots() = 0;

  // Durable, both. put: inserts, or replaces the one of that kind and id when its version is
  // `expected_version` (0: it must not be there yet). kAborted (reason "changed") when it is not as
  // expected. remove is idempotent.
  virtual Result<> put_record(const Record& record, std::int64_t expected_version) = 0;
  virtual Result<> remove_record(const std::string& kind, const std::string& id) = 0;
  virtual Result<std::vector<Record>> list_records(const std::string& kind) = 0;  // oldest first

  // Events after `after`, oldest first, at most min(limit, kMaxOutboxPage).
  virtual Result<std::vector<OutboxEvent>> read_outbox(std::int64_t after, std::size_t limit) = 0;
};

// Opens or creates the database file (mode 0600) and brings its schema up to date. kDataLoss when
// the file is no database of ours, kFailedPrecondition when it is newer than this program.
Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path);

}  // namespace atl::store
