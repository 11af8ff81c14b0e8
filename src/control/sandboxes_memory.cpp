// Memory of paused sandboxes that goes to disk: after a while, when memory is short, or when asked.
//
// A paused sandbox stays paused whatever happens here. One that cannot be dumped stays frozen in
// memory; why is kept for whoever asks for it. Its connections end with a dump, its processes do
// not notice.
#include "base/fd.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"
#include "control/memory_pressure.h"
#include "control/prepared_cells.h"

namespace atl::control {
namespace {

constexpr std::uint64_t kShortPercent = 10;

// "MemTotal:  2045996 kB"
std::uint64_t field_of(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(name)) {
      const std::string_view rest = trim(line.substr(name.size()));
      return parse_u64(rest.substr(0, rest.find(' '))).value_or(0);
    }
  }
  return 0;
}

}  // namespace

bool memory_is_short(std::string_view meminfo) {
  const std::uint64_t total = field_of(meminfo, "MemTotal:");
  return field_of(meminfo, "MemAvailable:") < total / 100 * kShortPercent;
}

bool host_memory_is_short() {
  const auto meminfo = read_file("/proc/meminfo");
  return meminfo && memory_is_short(*meminfo);
}

// REQUIRES: the entry is held, its row is `paused` and its cell is frozen.
Task<> Sandboxes::dump_held(EntryPointer entry) {
  const Flag pausing{entry->pausing};
  entry->dump_at.reset();
  if (!dumps_memory_) {
    entry->dump_refused = dumps_memory_reason_;
    co_return ok();
  }
  auto dumped = co_await with_deadline(kPauseTimeout, node_.dump(entry->row.id));
  if (dumped) {
    lose_cell(*entry);
    entry->dumped = true;
    dumps_.add();
    LOG_INFO("memory of a paused sandbox is on disk", {"sandbox", entry->row.id},
             {"mib", dumped->bytes >> 20});
    co_return ok();
  }
  const Code code = dumped.error().code;
  if (code == Code::kUnavailable || code == Code::kDeadlineExceeded || code == Code::kNotFound ||
      dumped.error().reason == "not_running") {
    unsettle(*entry);  // nobody knows whether there is still a cell
    co_return fail(std::move(dumped).error().note(concat("dumping ", entry->row.id)));
  }
  entry->dump_refused = dumped.error().message;
  LOG_INFO("memory of a paused sandbox stays where it is", {"sandbox", entry->row.id},
           {"why", entry->dump_refused});
  co_return ok();
}

void Sandboxes::plan_dump(Entry& entry) const {
  entry.dump_at.reset();
  if (dumps_memory_ && !entry.guest_socket.empty() && entry.paused_at) {
    entry.dump_at = deadline_after(*entry.paused_at, options_.dump_after_seconds);
  }
}

Sandboxes::EntryPointer Sandboxes::longest_frozen() const {
  EntryPointer longest;
  for (const auto& [id, entry] : entries_) {
    if (entry->row.status == SandboxStatus::kPaused && !entry->busy && entry->paused_at &&
        !entry->guest_socket.empty() && entry->dump_refused.empty() &&
        (!longest || *entry->paused_at < *longest->paused_at)) {
      longest = entry;
    }
  }
  return longest;
}

// One at a time: each gives memory back, and then it may be enough.
Task<> Sandboxes::dump_under_pressure() {
  if (!options_.memory_is_short) {
    co_return ok();
  }
  for (;;) {
    CO_TRY_DO(co_await sleep_for(kPressureInterval));
    if (prepared_ != nullptr) {
      prepared_->on_memory(options_.memory_is_short());  // what waits for nobody goes first
    }
    while (dumps_memory_ && options_.memory_is_short()) {
      const EntryPointer entry = longest_frozen();
      if (!entry) {
        break;
      }
      CO_TRY(const auto held, co_await hold(entry));
      if (entry->gone || entry->row.status != SandboxStatus::kPaused ||
          kept_memory(*entry) != PauseMemory::kKeep) {
        continue;
      }
      const Counted dumping{background_dumps_};
      if (auto dumped = co_await shielded(dump_held(entry)); !dumped) {
        LOG_WARN("memory is short and cannot be given back", {"error", dumped.error()});
        break;
      }
    }
  }
}

}  // namespace atl::control
