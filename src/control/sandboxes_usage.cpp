// What sandboxes use: asked now, and sampled at intervals for whoever asks later.
//
// The samples live in this process's memory, at most kMaxSamples per sandbox. Whoever does nothing
// is asked less and less often: thousands of sandboxes that sleep must cost nothing. And never more
// than kMaxSampledAtOnce in one round: those that somebody used last come first, then those that
// have waited longest.
#include <algorithm>
#include <map>

#include "base/scope.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {
namespace {

// Rounds without any use of the cpu before the first is left out, and how many are at most.
constexpr unsigned kQuietRounds = 12;
constexpr unsigned kMostLeftOut = 63;

// When one is asked again.
struct Pace {
  std::uint64_t cpu_nanoseconds = 0;
  unsigned quiet = 0;  // samples in a row that showed nothing new
  unsigned leave_out = 0;
  UnixMillis asked_at = 0;

  // Somebody's use of it counts as a reason to look.
  bool was_used(std::size_t uses, UnixMillis last_used_at) const {
    return uses > 0 || last_used_at > asked_at;
  }
  bool is_due(std::size_t uses, UnixMillis last_used_at) {
    if (leave_out == 0 || was_used(uses, last_used_at)) {
      return true;
    }
    --leave_out;
    return false;
  }
  void note(const UsageSample& sample) {
    quiet = sample.cpu_nanoseconds == cpu_nanoseconds ? quiet + 1 : 0;
    cpu_nanoseconds = sample.cpu_nanoseconds;
    asked_at = sample.at;
    leave_out = quiet < kQuietRounds
                    ? 0
                    : std::min(1U << std::min(quiet - kQuietRounds, 10U), kMostLeftOut);
  }
};

// The smallest comes first: in use, used last, asked the longest time ago.
using Turn = std::pair<int, UnixMillis>;
Turn turn_of(const Pace& pace, std::size_t uses, UnixMillis last_used_at) {
  if (uses > 0) {
    return {0, pace.asked_at};
  }
  return pace.was_used(uses, last_used_at) ? Turn{1, -last_used_at} : Turn{2, pace.asked_at};
}

}  // namespace

Task<std::vector<UsageSample>> Sandboxes::usage(std::string team_id, std::string id) {
  CO_TRY(const auto entry, find(team_id, id));
  if (entry->row.status != SandboxStatus::kRunning || entry->guest_socket.empty()) {
    co_return std::vector<UsageSample>(entry->samples.begin(), entry->samples.end());
  }
  CO_TRY(auto now, co_await sample(entry));
  std::vector<UsageSample> all(entry->samples.begin(), entry->samples.end());
  all.push_back(now);
  co_return std::move(all);
}

Task<UsageSample> Sandboxes::sample(EntryPointer entry) {
  const std::int64_t generation = entry->row.generation;
  CO_TRY(const auto used, co_await with_deadline(kNodeTimeout, node_.usage(entry->row.id)));
  co_return UsageSample{.at = clock_.now(),
                        .generation = generation,
                        .cpu_nanoseconds = used.cpu_nanoseconds,
                        .memory_bytes = used.memory_total_bytes,
                        .working_set_bytes = used.memory_bytes,
                        .memory_peak_bytes = used.memory_peak_bytes,
                        .disk_bytes = used.disk_bytes,
                        .process_count = used.process_count,
                        .limits = entry->row.limits};
}

// One after another: sampling must never crowd out those who wait for an answer. Where the node
// would have to walk a disk to measure it, only those who ask pay for that.
Task<> Sandboxes::sample_all() {
  std::map<std::string, Pace, std::less<>> paces;
  for (;;) {
    CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{kSampleIntervalMs}));
    std::vector<std::pair<Turn, EntryPointer>> due;
    std::erase_if(paces, [this](const auto& pace) { return !entries_.contains(pace.first); });
    for (const auto& [id, entry] : entries_) {
      if (!sampling_ || entry->busy || entry->guest_socket.empty()) {
        continue;
      }
      Pace& pace = paces[id];
      if (pace.is_due(entry->uses, entry->last_used_at)) {
        due.emplace_back(turn_of(pace, entry->uses, entry->last_used_at), entry);
      }
    }
    if (due.size() > kMaxSampledAtOnce) {
      const auto end = due.begin() + kMaxSampledAtOnce;
      std::ranges::nth_element(due, end, {}, &std::pair<Turn, EntryPointer>::first);
      due.erase(end, due.end());
    }
    for (const auto& [turn, entry] : due) {
      auto taken = co_await sample(entry);
      if (!taken && taken.error().code == Code::kCancelled) {
        co_return fail(std::move(taken).error());
      }
      if (!taken) {
        continue;  // it has just gone, or the node has: the next round knows
      }
      paces[entry->row.id].note(*taken);
      entry->samples.push_back(*taken);
      while (entry->samples.size() > kMaxSamples) {
        entry->samples.pop_front();
      }
    }
  }
}

}  // namespace atl::control
