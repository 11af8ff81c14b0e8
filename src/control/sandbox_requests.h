// What may be asked of Sandboxes and what is answered, as values.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/task.h"
#include "control/mounts.h"
#include "control/network_document.h"
#include "control/resources.h"
#include "store/room.h"

namespace atl::control {

using Sandbox = store::Sandbox;
using SandboxStatus = store::SandboxStatus;
using store::parse_status;
using store::status_name;
using store::StringMap;

struct ClaimAnswer;

// A claim that happens at most once per key and team within a day, whatever dies meanwhile: the key
// is recorded in the same transaction as the sandboxes, with what was answered.
struct ClaimOnce {
  std::string key;
  std::string body_sha256;  // another request with the same key is refused
  // Turns an answer into the text that is kept for whoever asks again.
  std::function<std::string(const ClaimAnswer&)> remember;
};

// Where a sandbox begins that does not begin as its template does.
struct Origin {
  std::string snapshot_id;          // of the node; empty: with the layers alone
  std::vector<std::string> layers;  // below it
  store::Limits limits;             // unless the claim asks for others
  std::string parent_id;            // the sandbox
  bool ephemeral_tmp = false;       // as that one
  store::Descent descent;           // without a parent: of no family
  bool memory = false;              // with the processes of that moment too
  bool passing = false;             // the snapshot is only for this claim, and then goes
};

// What the id of a new sandbox looks like.
enum class IdStyle : std::uint8_t {
  kReadable,  // "rs-<template>-<10 characters>"
  kPlain,     // "i" and 20 of a-z and 0-9, for clients that take nothing else
};

struct ClaimRequest {
  std::string team_id = store::kDefaultTeam;
  IdStyle id_style = IdStyle::kReadable;
  std::string template_name;   // or alias
  std::string name;            // empty: none
  bool get_or_create = false;  // the sandbox that has the name, when there is one
  std::size_t count = 1;
  bool partial = false;  // fewer than `count` are better than none
  StringMap env;
  ResourceRequest resources;
  std::int64_t ttl_seconds = 0;
  std::int64_t hard_ttl_seconds = 0;
  std::int64_t idle_ttl_seconds = 0;
  bool auto_resume = true;
  std::optional<bool> ephemeral_tmp;  // else the template decides, or where it begins
  StringMap labels;
  bool paused = false;        // they stand still when they are there
  bool awake_first = false;   // with `paused`: once `finish` has paused them; killed before, too
  std::vector<Mount> mounts;  // for each of them
  MountLists own_mounts;      // of the first, the second, ...: taken as they are
  std::vector<store::Record> documents;  // for each of them: kind and body; the rest is filled in
  NetworkRequestPtr network;             // null: what the template says, or the parent of a fork
  std::optional<Origin> origin;
  bool memory = false;  // from a snapshot: with the processes it has
  std::optional<ClaimOnce> once;
  // Asked for the rest of the request, unless it was answered before: what it needs may be gone.
  std::function<Task<ClaimRequest>(ClaimRequest)> complete;
  // What is still to be done when they are there. Whoever asks again with the key waits for it, and
  // gets what it answers.
  std::function<Task<ClaimAnswer>(ClaimAnswer)> finish;
};

// One interpreter of the parent of a fork, and what became of it.
struct CarriedInterpreter {
  std::string context_id;
  std::string alias;
  bool carried = false;  // it is in every child
  std::string reason;    // why not
  std::string note;      // what was left behind although it was carried
  std::uint64_t memory_bytes = 0;
  std::vector<std::string> missing_in;  // children that do not have it, when others do
};

struct ClaimAnswer {
  std::vector<Sandbox> sandboxes;         // at least one, unless `remembered`
  std::vector<Error> failures;            // of a partial claim, one for each that is missing
  bool created = true;                    // false: it was there before
  std::optional<std::string> remembered;  // what was answered the first time
  std::optional<std::vector<CarriedInterpreter>> interpreters;  // of a fork that was to carry them
};

// What is not given stays as it is. Maps replace the old ones as a whole; a ttl starts again now.
struct SandboxUpdate {
  std::optional<StringMap> env;
  std::optional<StringMap> labels;
  ResourceRequest resources;
  std::optional<std::int64_t> ttl_seconds;
  std::optional<std::int64_t> hard_ttl_seconds;
  std::optional<std::int64_t> idle_ttl_seconds;
  std::optional<bool> auto_resume;
  NetworkRequestPtr network;  // for NetworkPolicies, not for Sandboxes
};

// What a pause does with the processes.
enum class PauseMemory : std::uint8_t {
  kKeep,  // they stand still and go on where they were
  kDump,  // as kKeep, but on disk: they take no memory meanwhile
  kDrop,  // they end; the disk stays
};
// What happens to a sandbox when its ttl is over.
enum class TtlEnd : std::uint8_t { kPause, kPauseDisk, kDelete };
struct PauseAnswer {
  Sandbox sandbox;
  PauseMemory memory = PauseMemory::kDrop;  // what was done: keeping takes a freezer
  std::string reason;                       // why not what was asked for
};
struct ResumeAnswer {
  enum class Restored : std::uint8_t { kNothing, kMemory, kFilesystem };  // kNothing: it ran
  Sandbox sandbox;
  Restored restored = Restored::kNothing;
  std::string reason;  // why not from memory
};

// A disk to go back to.
struct DiskMoment {
  std::string snapshot_id;          // of the node
  std::vector<std::string> layers;  // it stands on
};

// A place in the order of a listing: after this sandbox. It stays valid when that one is deleted.
struct ListCursor {
  UnixMillis created_at = 0;
  std::string id;
};
std::string format_cursor(const ListCursor& cursor);
std::optional<ListCursor> parse_cursor(std::string_view text);

struct ListRequest {
  std::string team_id = store::kDefaultTeam;
  std::optional<SandboxStatus> status;
  std::optional<bool> paused;
  std::optional<std::string> template_name;
  std::optional<std::string> name;
  std::string name_prefix;
  std::vector<std::pair<std::string, std::string>> labels;  // all must match
  std::size_t limit = 50;
  std::size_t offset = 0;
  std::optional<ListCursor> after;
};
struct ListAnswer {
  std::vector<Sandbox> sandboxes;  // newest first
  bool has_more = false;
};

// What a sandbox used up to one moment.
struct UsageSample {
  UnixMillis at = 0;
  std::int64_t generation = 1;  // counters begin again with each
  std::uint64_t cpu_nanoseconds = 0;
  std::uint64_t memory_bytes = 0;       // with file cache
  std::uint64_t working_set_bytes = 0;  // without the cache that can go at once
  std::uint64_t memory_peak_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint32_t process_count = 0;
  store::Limits limits;
};

}  // namespace atl::control
