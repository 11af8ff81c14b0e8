// What sandboxes use: asked now, and sampled at intervals for whoever asks later.
//
// The samples live in this process's memory, at most kMaxSamples per sandbox. Whoever does nothing
// is asked less and less often: thousands of sandboxes that sleep must cost nothing. And never more
// than kMaxSampledAtOnce in one round: those in use come first, then those that were used or did
// something, then the others, among equals whoever has waited longest. A share of each round is for
// those that have waited longest of all, so nobody is left out for ever.
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

// Of kMaxSampledAtOnce: for whoever has waited longest, in use or not.
constexpr std::size_t kSharedPlaces = kMaxSampledAtOnce / 4;

struct Activity {
  std::size_t now = 0;
  UnixMillis last_at = 0;
};

// When one is asked again.
struct Pace {
  std::uint64_t cpu_nanoseconds = 0;
  unsigned quiet = 1;  // samples in a row that showed nothing new
  unsigned leave_out = 0;
  // In which round, whatever came of it: a time of day can be set, and one that cannot be asked
  // must not stand before the others each time.
  std::uint64_t asked_in = 0;
  UnixMillis seen_use_at = 0;

  // Somebody's use of it counts as a reason to look.
  bool was_used(const Activity& use) const { return use.now > 0 || use.last_at != seen_use_at; }
  bool is_due(const Activity& use) {
    if (leave_out == 0 || was_used(use)) {
      return true;
    }
    --leave_out;
    return false;
  }
  void ask(const Activity& use, std::uint64_t round) {
    asked_in = round;
    seen_use_at = use.last_at;
  }
  void note(const UsageSample& sample) {
    quiet = sample.cpu_nanoseconds == cpu_nanoseconds ? quiet + 1 : 0;
    cpu_nanoseconds = sample.cpu_nanoseconds;
    leave_out = quiet < kQuietRounds
                    ? 0
                    : std::min(1U << std::min(quiet - kQuietRounds, 10U), kMostLeftOut);
  }
};

struct Candidate {
  int rank;  // the smallest comes first
  std::uint64_t asked_in;
  std::string id;
};

int rank_of(const Pace& pace, const Activity& use) {
  if (use.now > 0) {
    return 0;
  }
  return pace.was_used(use) || pace.quiet == 0 ? 1 : 2;
}

void keep_those_whose_turn_it_is(std::vector<Candidate>& due) {
  if (due.size() <= kMaxSampledAtOnce) {
    return;
  }
  const auto shared = due.begin() + kSharedPlaces;
  const auto end = due.begin() + kMaxSampledAtOnce;
  std::ranges::nth_element(due, shared, {}, &Candidate::asked_in);
  std::ranges::nth_element(shared, end, due.end(), {}, [](const Candidate& each) {
    return std::pair{each.rank, each.asked_in};
  });
  due.erase(end, due.end());
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
  for (std::uint64_t round = 1;; ++round) {
    CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{kSampleIntervalMs}));
    std::vector<Candidate> due;
    std::erase_if(paces, [this](const auto& pace) { return !entries_.contains(pace.first); });
    for (const auto& [id, entry] : entries_) {
      if (!sampling_ || entry->busy || entry->guest_socket.empty()) {
        continue;
      }
      Pace& pace = paces[id];
      const Activity use{entry->uses, entry->last_used_at};
      if (pace.is_due(use)) {
        due.push_back({rank_of(pace, use), pace.asked_in, id});
      }
    }
    keep_those_whose_turn_it_is(due);
    for (const Candidate& candidate : due) {
      const auto found = entries_.find(candidate.id);
      if (found == entries_.end()) {
        continue;  // gone meanwhile
      }
      const EntryPointer entry = found->second;
      Pace& pace = paces[candidate.id];
      pace.ask({entry->uses, entry->last_used_at}, round);
      auto taken = co_await sample(entry);
      if (!taken && taken.error().code == Code::kCancelled) {
        co_return fail(std::move(taken).error());
      }
      if (!taken) {
        continue;  // it has just gone, or the node has: the next round knows
      }
      pace.note(*taken);
      entry->samples.push_back(*taken);
      while (entry->samples.size() > kMaxSamples) {
        entry->samples.pop_front();
      }
    }
  }
}

}  // namespace atl::control
