// Changing a sandbox that exists: its environment, limits, labels and times.
//
// The row is changed first, then the running cell; when the cell cannot get its new limits, the row
// gets its old ones back. Killed in between, the next start applies what the row says.
#include "base/fault_point.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {

Result<> validate_ttls(const Sandbox& row) {
  for (const auto seconds : {row.ttl_seconds, row.hard_ttl_seconds, row.idle_ttl_seconds}) {
    if (seconds < 0 || seconds > kMaxTtlSeconds) {
      return fail(
          Code::kInvalidArgument,
          concat("config.ttl, config.hard_ttl and config.idle_ttl are seconds from 0 (none) "
                 "to ",
                 kMaxTtlSeconds));
    }
  }
  if (row.ttl_seconds > 0 && row.hard_ttl_seconds > 0 && row.ttl_seconds > row.hard_ttl_seconds) {
    return fail(Code::kInvalidArgument,
                concat("config.ttl (", row.ttl_seconds, ") must not be more than ",
                       "config.hard_ttl (", row.hard_ttl_seconds, ")"));
  }
  return {};
}

Result<> validate_labels(const StringMap& labels) {
  if (labels.size() > kMaxLabels) {
    return fail(Code::kInvalidArgument,
                concat("config.metadata has ", labels.size(), " entries; at most ", kMaxLabels));
  }
  for (const auto& [key, value] : labels) {
    if (key.empty() || key.size() > kMaxLabelKeyBytes || key.find('=') != std::string::npos ||
        value.size() > kMaxLabelValueBytes) {
      return fail(Code::kInvalidArgument,
                  concat("config.metadata has an unusable entry \"", to_valid_utf8(key),
                         "\"; keys have 1 to ", kMaxLabelKeyBytes,
                         " bytes and no '=', values at most ", kMaxLabelValueBytes, " bytes"));
    }
  }
  return {};
}

Task<Sandbox> Sandboxes::update(std::string team_id, std::string id, SandboxUpdate change) {
  return shielded(update_now(std::move(team_id), std::move(id), std::move(change)));
}

Task<Sandbox> Sandboxes::refresh(std::string team_id, std::string id, std::int64_t ttl_seconds) {
  return shielded(refresh_now(std::move(team_id), std::move(id), ttl_seconds));
}

// REQUIRES: the entry is held.
Result<> Sandboxes::refuse_unchangeable(const Entry& entry) {
  if (entry.gone) {
    return no_such_sandbox(entry.row.id);
  }
  if (entry.unwanted || to_be_removed(entry.row.status)) {
    return fail(Code::kFailedPrecondition, concat("sandbox ", entry.row.id, " is being deleted"));
  }
  return {};
}

Task<Sandbox> Sandboxes::update_now(std::string team_id, std::string id, SandboxUpdate change) {
  CO_TRY(const auto entry, find(team_id, id));
  CO_TRY(const auto held, co_await with_deadline(kNodeTimeout, hold(entry)));
  CO_TRY_DO(refuse_unchangeable(*entry));
  Sandbox next = entry->row;
  const UnixMillis now = this->now();
  if (change.env) {
    CO_TRY_DO(validate_env(*change.env, "config.env_vars"));
    next.env = *std::move(change.env);
  }
  if (change.labels) {
    CO_TRY_DO(validate_labels(*change.labels));
    next.labels = *std::move(change.labels);
  }
  if (change.ttl_seconds) {
    next.ttl_seconds = *change.ttl_seconds;
    next.expires_at = deadline_after(now, next.ttl_seconds);
  }
  if (change.hard_ttl_seconds) {
    next.hard_ttl_seconds = *change.hard_ttl_seconds;
    next.hard_expires_at = deadline_after(now, next.hard_ttl_seconds);
  }
  next.idle_ttl_seconds = change.idle_ttl_seconds.value_or(next.idle_ttl_seconds);
  next.auto_resume = change.auto_resume.value_or(next.auto_resume);
  CO_TRY_DO(validate_ttls(next));
  CO_TRY(const auto limits, decide_limits(options_.resources, change.resources));
  next.limits.memory_bytes =
      change.resources.memory ? limits.memory_bytes : next.limits.memory_bytes;
  next.limits.cpu_millis = change.resources.cpu ? limits.cpu_millis : next.limits.cpu_millis;
  next.limits.disk_bytes = change.resources.disk ? limits.disk_bytes : next.limits.disk_bytes;
  CO_TRY_DO(co_await configure_with_limits(entry, std::move(next)));
  entry->last_used_at = now;
  schedule(*entry, due_at(*entry));
  co_return view(*entry);
}

Task<Sandbox> Sandboxes::refresh_now(std::string team_id, std::string id,
                                     std::int64_t ttl_seconds) {
  CO_TRY(const auto entry, find(team_id, id));
  CO_TRY(const auto held, co_await with_deadline(kNodeTimeout, hold(entry)));
  CO_TRY_DO(refuse_unchangeable(*entry));
  Sandbox next = entry->row;
  const UnixMillis now = this->now();
  if (ttl_seconds < 0 || ttl_seconds > kMaxTtlSeconds ||
      (next.hard_ttl_seconds > 0 && ttl_seconds > next.hard_ttl_seconds)) {
    co_return fail(Code::kInvalidArgument,
                   concat("duration is ", ttl_seconds, " seconds; it must be from 0 to ",
                          next.hard_ttl_seconds > 0 ? next.hard_ttl_seconds : kMaxTtlSeconds));
  }
  next.expires_at = deadline_after(now, ttl_seconds > 0 ? ttl_seconds : next.ttl_seconds);
  next.hard_expires_at = deadline_after(now, next.hard_ttl_seconds);
  CO_TRY_DO(co_await configure(entry, std::move(next)));
  entry->last_used_at = now;
  schedule(*entry, due_at(*entry));
  co_return view(*entry);
}

// REQUIRES: the entry is held.
Task<> Sandboxes::configure_with_limits(EntryPointer entry, Sandbox next) {
  const Sandbox before = entry->row;
  const bool live =
      before.limits != next.limits && !entry->guest_socket.empty() &&
      (before.status == SandboxStatus::kRunning || before.status == SandboxStatus::kPaused);
  if (live) {
    CO_TRY_DO(co_await refuse_if_in_use(entry, next.limits));
  }
  CO_TRY_DO(co_await configure(entry, std::move(next)));
  if (!live) {
    co_return ok();
  }
  ATOLL_FAULT_POINT("control.update.recorded");
  auto applied = co_await apply_limits(entry, entry->row.limits);
  ATOLL_FAULT_POINT("control.update.applied");
  if (applied) {
    co_return ok();
  }
  // The first error is the one to tell.
  if (auto undone = co_await configure(entry, before); !undone) {
    LOG_ERROR("cannot take back a change", {"sandbox", before.id}, {"error", undone.error()});
  }
  if (auto undone = co_await apply_limits(entry, entry->row.limits); !undone) {
    LOG_WARN("cannot apply the limits of a sandbox", {"sandbox", before.id},
             {"error", undone.error()});
  }
  co_return fail(std::move(applied).error().note("changing the limits of the sandbox"));
}

// REQUIRES: the entry is held.
Task<> Sandboxes::configure(EntryPointer entry, Sandbox next) {
  const store::Expected expected = expected_row(*entry);
  next.updated_at = clock_.now();
  const auto event = event_of(next, "configured", next.updated_at);
  auto changed = co_await store_.run(
      [&](store::Store& store) { return store.configure_sandbox(next, expected, event); });
  if (!changed) {
    // A commit that reports failure may still have happened: look.
    auto row =
        co_await store_.run([&](store::Store& store) { return store.find_sandbox(entry->row.id); });
    if (!row || *row != next) {
      co_return fail(std::move(changed).error().note(concat("recording sandbox ", next.id)));
    }
  }
  entry->row = std::move(next);
  co_return ok();
}

Task<> Sandboxes::apply_limits(EntryPointer entry, store::Limits limits) {
  co_return co_await with_deadline(kNodeTimeout,
                                   node_.set_limits(entry->row.id, node_limits(limits)));
}

// The kernel would kill processes (cgroup v2) or refuse (v1) to fit a cell into less memory than it
// uses; we refuse, on both.
Task<> Sandboxes::refuse_if_in_use(EntryPointer entry, store::Limits limits) {
  const store::Limits& before = entry->row.limits;
  if (limits.memory_bytes >= before.memory_bytes && limits.disk_bytes >= before.disk_bytes) {
    co_return ok();
  }
  CO_TRY(const auto used, co_await with_deadline(kNodeTimeout, node_.usage(entry->row.id)));
  const bool memory = limits.memory_bytes < before.memory_bytes;
  if (memory && used.memory_bytes > limits.memory_bytes) {
    co_return fail(Code::kFailedPrecondition,
                   concat("sandbox ", entry->row.id, " uses ", used.memory_bytes,
                          " bytes of memory; config.resources.memory cannot be less"),
                   "memory_in_use");
  }
  if (limits.disk_bytes < before.disk_bytes && used.disk_bytes > limits.disk_bytes) {
    co_return fail(Code::kFailedPrecondition,
                   concat("sandbox ", entry->row.id, " uses ", used.disk_bytes,
                          " bytes of disk; config.resources.disk cannot be less"),
                   "disk_in_use");
  }
  co_return ok();
}

}  // namespace atl::control
