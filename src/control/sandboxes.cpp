#include "control/sandboxes.h"

#include <algorithm>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"
#include "control/prepared_cells.h"

namespace atl::control {
Result<> validate_env(const StringMap& env, std::string_view field) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : env) {
    bytes += name.size() + value.size() + 2;
    if (name.empty() || name.find('=') != std::string::npos ||
        name.find('\0') != std::string::npos || value.find('\0') != std::string::npos) {
      return fail(Code::kInvalidArgument,
                  concat(field, " has a variable with an unusable name or value: \"",
                         to_valid_utf8(name), "\"; no '=' in names, no NUL bytes"));
    }
  }
  if (env.size() > kMaxEnvVariables || bytes > kMaxEnvBytes) {
    return fail(Code::kInvalidArgument, concat(field, " is too large; at most ", kMaxEnvVariables,
                                               " variables and ", kMaxEnvBytes, " bytes"));
  }
  return {};
}

Sandboxes::Sandboxes(StoreAccess store, node::Node& node, const WallClock& clock, Metrics& metrics,
                     SandboxesOptions options)
    : store_(store),
      node_(node),
      clock_(clock),
      options_(options),
      once_keys_(store, clock),
      count_(metrics.gauge("atoll_control_sandboxes_count", "Sandboxes that exist")),
      claims_(metrics.counter("atoll_control_claims_total", "Claims that succeeded")),
      failed_claims_(metrics.counter("atoll_control_claims_failed_total", "Claims that failed")),
      removals_(metrics.counter("atoll_control_removals_total", "Sandboxes removed")),
      restarts_(metrics.counter("atoll_control_restarts_total",
                                "Sandboxes started again from their filesystem")),
      dumps_(metrics.counter("atoll_control_dumps_total",
                             "Paused sandboxes whose memory went to disk")),
      pauses_(metrics.counter("atoll_control_pauses_total", "Sandboxes paused")),
      resumes_(metrics.counter("atoll_control_resumes_total", "Sandboxes resumed")),
      failures_(metrics.counter("atoll_control_failures_total", "Sandboxes marked as failed")),
      claim_seconds_(metrics.histogram("atoll_control_claim_seconds", "Time a claim took")) {
  metrics.gauge("atoll_control_sandboxes_max", "Sandboxes that may exist")
      .set(static_cast<std::int64_t>(options_.max_sandboxes));
}

Sandboxes::~Sandboxes() = default;

Task<> Sandboxes::start() {
  TaskContext& here = co_await current_context();
  begin_clock(*here.loop);
  CO_TRY(auto rows,
         co_await store_.run([](store::Store& store) { return store.list_sandboxes(); }));
  for (auto& row : rows) {
    auto entry = std::make_shared<Entry>();
    entry->row = std::move(row);
    entry->last_used_at = now();
    schedule(*entry, due_at(*entry));
    if (!entry->row.name.empty()) {
      names_.emplace(std::pair{entry->row.team_id, entry->row.name}, entry);
    }
    remember(entry);
  }
  count_.set(static_cast<std::int64_t>(entries_.size()));
  CO_TRY_DO(co_await shielded(reconcile()));
  set_ready(true);
  co_return ok();
}

// --- looking ---------------------------------------------------------------------------------

Result<Sandboxes::EntryPointer> Sandboxes::find(std::string_view team_id,
                                                std::string_view id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->row.team_id != team_id) {
    return no_such_sandbox(id);
  }
  return found->second;
}

// What it is for those who ask, which is more than the row knows.
SandboxStatus Sandboxes::view_status(const Entry& entry) {
  if (entry.unwanted) {
    return SandboxStatus::kTerminating;
  }
  const bool without_cell = entry.restarting || (entry.unsettled && entry.guest_socket.empty());
  return without_cell && entry.row.status == SandboxStatus::kRunning ? SandboxStatus::kStarting
                                                                     : entry.row.status;
}

Sandbox Sandboxes::view(const Entry& entry) {
  Sandbox row = entry.row;
  row.status = view_status(entry);
  return row;
}

Result<Sandbox> Sandboxes::get(std::string_view team_id, std::string_view id) const {
  TRY(const auto entry, find(team_id, id));
  return view(*entry);
}

Result<Sandbox> Sandboxes::get_of_any_team(std::string_view id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return no_such_sandbox(id);
  }
  return view(*found->second);
}

PauseMemory Sandboxes::memory_of(std::string_view id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? PauseMemory::kDrop : kept_memory(*found->second);
}

Task<RunningSandbox> Sandboxes::running(std::string team_id, std::string id) {
  CO_TRY(auto entry, find(team_id, id));
  if (entry->busy &&
      (entry->restarting || entry->pausing || entry->row.status == SandboxStatus::kStarting)) {
    CO_TRY(const auto waited, co_await with_deadline(hold_patience(*entry), hold(entry)));
  }
  if (entry->unsettled && entry->row.status == SandboxStatus::kRunning &&
      entry->guest_socket.empty()) {
    // Its turn has not come yet, or it did not work: now somebody waits for it.
    CO_TRY(const auto held, co_await with_deadline(kPauseTimeout, hold(entry)));
    if (auto settled = co_await shielded(settle_held(entry)); !settled) {
      LOG_DEBUG("a sandbox that is to be used is not settled", {"sandbox", id},
                {"error", settled.error()});
    }
  }
  if (entry->gone) {
    co_return no_such_sandbox(id);
  }
  if (entry->row.status == SandboxStatus::kPaused && entry->row.auto_resume) {
    CO_TRY_DO(co_await resume(team_id, id));
  }
  const auto& row = entry->row;
  if (row.status != SandboxStatus::kRunning || entry->guest_socket.empty()) {
    const auto status = status_name(view(*entry).status);
    co_return fail(Code::kUnavailable,
                   row.status == SandboxStatus::kFailed
                       ? concat("sandbox ", id, " has failed (", row.failure,
                                "); resume it to start again from its files, or delete it")
                       : concat("sandbox ", id, " is ", status, " and cannot be used now"),
                   "sandbox_not_running");
  }
  const TemplateDefaults& defaults = templates_.defaults(row.template_name, row.team_id);
  StringMap env = row.env;
  env.insert(defaults.env.begin(), defaults.env.end());
  for (const SandboxDocuments* const documents : documents_) {
    env.merge(documents->environment(row));
  }
  co_return RunningSandbox{row.id, entry->guest_socket, std::move(env), defaults.user,
                           defaults.cwd};
}

// --- changing --------------------------------------------------------------------------------

Task<Sandboxes::Hold> Sandboxes::hold(EntryPointer entry) {
  while (entry->busy) {
    entry->released.clear();
    CO_TRY_DO(co_await entry->released.wait());
  }
  co_return Hold{std::move(entry)};
}

store::Expected Sandboxes::expected_row(const Entry& entry) {
  return {entry.paused_in_store ? SandboxStatus::kPaused : entry.row.status, entry.row.generation};
}

// For whoever waits for an entry: what moves memory takes longer than everything else.
Duration Sandboxes::hold_patience(const Entry& entry) {
  return entry.pausing || entry.restarting ? kPauseTimeout : kNodeTimeout;
}

Task<> Sandboxes::change(Entry& entry, store::Transition transition, store::Durability durability) {
  const store::Expected expected = expected_row(entry);
  // A moment of creation may be ahead of the clock, see make_entry().
  transition.updated_at = std::max(clock_.now(), entry.row.created_at);
  const auto event = event_of(entry.row, status_name(transition.status), transition.updated_at);
  auto changed = co_await store_.run([&](store::Store& store) {
    return store.change_sandbox(entry.row.id, expected, transition, event, durability);
  });
  if (!changed) {
    // A commit that reports failure may still have happened: look.
    auto row = co_await store_.run(
        [&entry](store::Store& store) { return store.find_sandbox(entry.row.id); });
    if (row) {
      entry.row = *std::move(row);
      entry.paused_in_store = false;
    }
    co_return fail(std::move(changed).error().note(concat("recording sandbox ", entry.row.id)));
  }
  entry.paused_in_store = false;
  entry.row.status = transition.status;
  entry.row.generation = transition.generation;
  entry.row.failure = std::move(transition.failure);
  entry.row.updated_at = transition.updated_at;
  if (transition.sets_expiry) {
    entry.row.expires_at = transition.expires_at;
  }
  co_return ok();
}

void Sandboxes::forget(Entry& entry) {
  entry.gone = true;
  if (entry.prepared && prepared_ != nullptr) {
    prepared_->discard(entry.row.id);
    entry.prepared.reset();
  }
  schedule(entry, std::nullopt);
  if (!entry.row.name.empty()) {
    names_.erase({entry.row.team_id, entry.row.name});
  }
  for (SandboxDocuments* const documents : documents_) {
    documents->forget(entry.row.id);
  }
  if (const auto order = list_orders_.find(entry.row.team_id); order != list_orders_.end()) {
    order->second.erase({entry.row.created_at, entry.row.id});
    if (order->second.empty()) {
      list_orders_.erase(order);
    }
  }
  entries_.erase(entry.row.id);
  count_.set(static_cast<std::int64_t>(entries_.size()));
}

void Sandboxes::set_ready(bool ready) {
  ready_ = ready;
  if (ready) {
    node_ready_.set();
    if (prepared_ != nullptr) {
      prepared_->on_node_ready();
    }
  } else {
    node_ready_.clear();
  }
}

Task<> Sandboxes::remove(std::string team_id, std::string id) {
  return shielded(remove_now(std::move(team_id), std::move(id)));
}

Task<> Sandboxes::remove_now(std::string team_id, std::string id) {
  CO_TRY(const auto entry, find(team_id, id));
  CO_TRY(const auto held, co_await hold(entry));
  if (entry->gone) {
    co_return no_such_sandbox(id);
  }
  co_return co_await remove_held(entry);
}

// REQUIRES: the entry is held.
Task<> Sandboxes::remove_held(EntryPointer entry) {
  if (entry->row.status != SandboxStatus::kTerminating && !entry->unwanted) {
    store::Transition transition{.status = SandboxStatus::kTerminating,
                                 .generation = entry->row.generation};
    CO_TRY_DO(co_await change(*entry, std::move(transition), store::Durability::kDurable));
  }
  ATOLL_FAULT_POINT("control.remove.recorded");
  auto finished = co_await finish_deletion(entry);
  ATOLL_FAULT_POINT("control.remove.finished");
  if (!finished) {
    co_return fail(std::move(finished).error().note(
        "the deletion is recorded and goes on by itself, but is not finished"));
  }
  removals_.add();
  LOG_INFO("sandbox removed", {"sandbox", entry->row.id});
  co_return ok();
}

// REQUIRES: the entry is held. Its row goes whatever its state: nobody was promised this sandbox,
// or it is to be deleted.
Task<> Sandboxes::finish_deletion(EntryPointer entry) {
  // Without a deadline of ours: its time runs from when its turn has come.
  auto destroyed = co_await node_.destroy({.id = entry->row.id, .in_background = true});
  if (!destroyed && destroyed.error().code != Code::kNotFound) {
    deletion_pending_.set();
    co_return fail(std::move(destroyed).error().note(concat("destroying ", entry->row.id)));
  }
  ATOLL_FAULT_POINT("control.remove.destroyed");
  lose_cell(*entry);
  if (!entry->claim_key.empty()) {
    // Before the row: a key must never outlive, as an answer, the sandbox of a claim that failed.
    auto forgotten = co_await store_.run([&](store::Store& store) {
      return store.remove_claim_key(entry->row.team_id, entry->claim_key);
    });
    if (!forgotten) {
      deletion_pending_.set();
      co_return fail(std::move(forgotten).error().note(concat("forgetting ", entry->row.id)));
    }
  }
  const store::Expected expected = expected_row(*entry);
  const auto event = event_of(entry->row, "deleted", clock_.now());
  auto removed = co_await store_.run(
      [&](store::Store& store) { return store.remove_sandbox(entry->row.id, expected, event); });
  if (!removed && removed.error().code != Code::kNotFound) {
    deletion_pending_.set();
    co_return fail(std::move(removed).error().note(concat("removing ", entry->row.id)));
  }
  forget(*entry);
  co_return ok();
}

}  // namespace atl::control
