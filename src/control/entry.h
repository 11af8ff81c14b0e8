// One sandbox in memory, and the right to change it. Private to control's Sandboxes.
#pragma once

#include <map>
#include <vector>

#include "base/strings.h"
#include "control/sandboxes.h"

namespace atl::control {

inline std::unexpected<Error> no_such_sandbox(std::string_view id) {
  return fail(Code::kNotFound, concat("there is no sandbox \"", to_valid_utf8(id), "\""),
              "sandbox_not_found");
}

inline store::Event event_of(const Sandbox& row, std::string_view kind, UnixMillis now) {
  return store::Event{
      .kind = concat("sandbox.", kind), .subject = row.id, .team_id = row.team_id, .at = now};
}

inline std::optional<UnixMillis> deadline_after(UnixMillis now, std::int64_t seconds) {
  return seconds == 0 ? std::nullopt : std::optional{now + seconds * 1000};
}

inline node::Limits node_limits(const store::Limits& limits) {
  return {limits.memory_bytes, limits.cpu_millis, limits.process_count, limits.disk_bytes};
}

inline std::vector<node::Mount> node_mounts(const std::vector<Mount>& mounts) {
  std::vector<node::Mount> out;
  out.reserve(mounts.size());
  for (const Mount& mount : mounts) {
    out.push_back({mount.volume_id, mount.path, mount.read_only});
  }
  return out;
}

// kInvalidArgument that names the field of the configuration.
Result<> validate_ttls(const Sandbox& row);
Result<> validate_labels(const StringMap& labels);

struct Sandboxes::Entry {
  Sandbox row;
  std::string guest_socket;
  std::vector<store::Record> records;      // of a claim, until they are in the store
  std::optional<node::CellInfo> prepared;  // of a claim, until it is used
  bool prepared_fits = true;               // with these limits
  bool busy = false;                       // somebody holds it
  bool gone = false;                       // its row is removed: whoever waited for it must give up
  bool pausing = false;      // its cell stands still, or will in a moment; the row does not say so
  bool restarting = false;   // `running` in the store, but there is no cell at this moment
  bool dumped = false;       // paused, its memory on disk
  bool from_memory = false;  // how its last restart ended
  std::string restart_reason;           // why not from memory, when there was some
  std::string dump_refused;             // why its memory could not go to disk
  std::optional<UnixMillis> paused_at;  // as far as this process knows
  std::optional<UnixMillis> dump_at;    // its memory goes to disk then
  bool unwanted = false;                // its claim failed: it goes whatever its row says
  bool paused_in_store = false;  // it runs for a moment before it is: a crash is to leave it paused
  bool unsaved = false;          // its deadlines moved with the clock; the store does not know yet
  bool unsettled = false;        // row and cell may differ: nobody knows how an operation ended
  std::string claim_key;         // of the claim that failed; forgotten before the row
  Event released;
  std::size_t uses = 0;
  UnixMillis last_used_at = 0;             // this process's start counts as use
  std::optional<UnixMillis> scheduled_at;  // its place in deadlines_; not after what is due
  std::deque<UsageSample> samples;
  std::deque<UnixMillis> restarts;  // of the last kRestartWindowMs
};

// What making rows and cells agree has done.
struct Sandboxes::Report {
  std::size_t adopted = 0;
  std::size_t restarted = 0;
  std::size_t failed = 0;
  std::size_t removed = 0;
  std::size_t orphans = 0;
};

// Sandboxes that a few tasks settle side by side.
struct Sandboxes::Settling {
  std::vector<EntryPointer> entries;
  std::size_t next = 0;
  bool all = true;
};

// Exclusive use of an entry, from hold() until destroyed.
class Sandboxes::Hold {
 public:
  // REQUIRES: not busy.
  explicit Hold(EntryPointer entry) : entry_(std::move(entry)) {
    CHECK(!entry_->busy);
    entry_->busy = true;
  }
  Hold(Hold&& other) noexcept = default;
  Hold& operator=(Hold&&) = delete;
  ~Hold() {
    if (entry_) {
      entry_->busy = false;
      entry_->released.set();
    }
  }
  const EntryPointer& entry() const { return entry_; }

 private:
  EntryPointer entry_;
};

// All sandboxes that a few tasks repair side by side, with the cells that were listed.
struct Sandboxes::Repairs {
  std::vector<Hold> holds;
  std::map<std::string_view, const node::CellInfo*> cells;
  std::size_t next = 0;
  Report report;
};

// True while it lives.
class Flag {
 public:
  explicit Flag(bool& flag) : flag_(flag) { flag_ = true; }
  ~Flag() { flag_ = false; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

 private:
  bool& flag_;
};

// One more of something while it lives.
class Counted {
 public:
  explicit Counted(std::size_t& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::size_t& count_;
};

// Rows that are on their way out.
inline bool to_be_removed(SandboxStatus status) {
  return status == SandboxStatus::kTerminating || status == SandboxStatus::kStarting;
}

}  // namespace atl::control
