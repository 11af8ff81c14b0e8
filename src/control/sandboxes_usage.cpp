// What sandboxes use: asked now, and sampled at intervals for whoever asks later.
//
// The samples live in this process's memory, at most kMaxSamples per sandbox.
#include "base/scope.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {

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
  for (;;) {
    CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{kSampleIntervalMs}));
    std::vector<EntryPointer> running;
    for (const auto& [id, entry] : entries_) {
      if (sampling_ && !entry->busy && !entry->guest_socket.empty()) {
        running.push_back(entry);
      }
    }
    for (const auto& entry : running) {
      auto taken = co_await sample(entry);
      if (!taken && taken.error().code == Code::kCancelled) {
        co_return fail(std::move(taken).error());
      }
      if (!taken) {
        continue;  // it has just gone, or the node has: the next round knows
      }
      entry->samples.push_back(*taken);
      while (entry->samples.size() > kMaxSamples) {
        entry->samples.pop_front();
      }
    }
  }
}

}  // namespace atl::control
