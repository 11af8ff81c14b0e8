// Sandboxes that stand still, and go on.
//
// A pause stops every process where it is; the cell stays, frozen, with its memory, and the disk is
// durable when the pause is acknowledged. Without memory the cell ends and the disk stays. The row
// says `paused` after the cell stands still and `running` before it moves again, so a crash in
// between leaves a `running` row with a frozen cell, which reconcile() thaws, or without one, which
// it restarts: a pause that nobody was promised is undone. A paused row without a cell resumes from
// its memory on disk when there is some (sandboxes_memory.cpp), else from its files, and the answer
// says which.
#include "base/fault_point.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {

Task<PauseAnswer> Sandboxes::pause(std::string team_id, std::string id, PauseMemory memory) {
  return shielded(pause_now(std::move(team_id), std::move(id), memory));
}

Task<ResumeAnswer> Sandboxes::resume(std::string team_id, std::string id) {
  return shielded(resume_now(std::move(team_id), std::move(id)));
}

Task<PauseAnswer> Sandboxes::pause_now(std::string team_id, std::string id, PauseMemory memory) {
  CO_TRY(const auto entry, find(team_id, id));
  CO_TRY(const auto held, co_await with_deadline(hold_patience(*entry), hold(entry)));
  CO_TRY_DO(refuse_unchangeable(*entry));
  CO_TRY_DO(co_await pause_held(entry, memory));
  PauseAnswer answer{view(*entry), kept_memory(*entry), {}};
  if (memory == PauseMemory::kDump && answer.memory != PauseMemory::kDump) {
    answer.reason = entry->dump_refused;
  }
  co_return std::move(answer);
}

PauseMemory Sandboxes::kept_memory(const Entry& entry) {
  if (entry.dumped) {
    return PauseMemory::kDump;
  }
  return entry.guest_socket.empty() ? PauseMemory::kDrop : PauseMemory::kKeep;
}

// REQUIRES: the entry is held.
Task<> Sandboxes::pause_held(EntryPointer entry, PauseMemory memory) {
  if (entry->row.status == SandboxStatus::kPaused) {
    if (memory == PauseMemory::kDrop && kept_memory(*entry) != PauseMemory::kDrop) {
      CO_TRY_DO(co_await end_cell(entry));
    }
    if (memory == PauseMemory::kDump && kept_memory(*entry) == PauseMemory::kKeep) {
      co_return co_await dump_held(entry);
    }
    co_return ok();
  }
  if (entry->row.status != SandboxStatus::kRunning) {
    co_return fail(Code::kFailedPrecondition,
                   concat("sandbox ", entry->row.id, " is ", status_name(entry->row.status),
                          "; only a running one can be paused"));
  }
  const Flag pausing{entry->pausing};
  ATOLL_FAULT_POINT("control.pause.begun");
  auto frozen = co_await with_deadline(kPauseTimeout, node_.freeze(entry->row.id));
  if (!frozen && frozen.error().code != Code::kUnimplemented) {
    co_return co_await take_back_pause(
        entry, std::move(frozen).error().note(concat("pausing ", entry->row.id)));
  }
  ATOLL_FAULT_POINT("control.pause.frozen");
  if (!frozen || memory == PauseMemory::kDrop) {
    // What was frozen is on disk already.
    if (auto ended = co_await end_cell(entry, !frozen); !ended) {
      co_return co_await take_back_pause(entry, std::move(ended).error());
    }
  }
  ATOLL_FAULT_POINT("control.pause.still");
  store::Transition paused{.status = SandboxStatus::kPaused, .generation = entry->row.generation};
  auto changed = co_await change(*entry, std::move(paused), store::Durability::kDurable);
  if (!changed && entry->row.status == SandboxStatus::kRunning) {
    co_return co_await take_back_pause(entry, std::move(changed).error());
  }
  CO_TRY_DO(std::move(changed));
  ATOLL_FAULT_POINT("control.pause.recorded");
  pauses_.add();
  entry->paused_at = clock_.now();
  entry->dump_refused.clear();
  plan_dump(*entry);
  schedule(*entry, due_at(*entry));
  LOG_INFO("sandbox paused", {"sandbox", entry->row.id},
           {"memory", kept_memory(*entry) == PauseMemory::kKeep});
  if (memory == PauseMemory::kDump && kept_memory(*entry) == PauseMemory::kKeep) {
    co_return co_await dump_held(entry);
  }
  co_return ok();
}

// The sandbox runs on: nobody was promised a pause. The first error is the one to tell.
Task<> Sandboxes::take_back_pause(EntryPointer entry, Error error) {
  Result<> undone;
  if (kept_memory(*entry) == PauseMemory::kKeep) {
    undone = co_await with_deadline(kNodeTimeout, node_.thaw(entry->row.id));
  } else {
    undone = co_await restart(entry);
  }
  if (!undone) {
    LOG_WARN("a pause is not taken back yet", {"sandbox", entry->row.id},
             {"error", undone.error()});
    unsettle(*entry);
  }
  co_return fail(std::move(error));
}

// The disk stays. REQUIRES: the entry is held.
Task<> Sandboxes::end_cell(EntryPointer entry, bool sync) {
  ATOLL_FAULT_POINT("control.end_cell.begun");
  node::DestroyRequest request{.id = entry->row.id, .keep_upper = true, .sync = sync};
  auto ended = co_await with_deadline(sync ? kPauseTimeout : kNodeTimeout,
                                      node_.destroy(std::move(request)));
  if (!ended && ended.error().code != Code::kNotFound) {
    co_return fail(
        std::move(ended).error().note(concat("ending the processes of ", entry->row.id)));
  }
  lose_cell(*entry);
  entry->dumped = false;
  co_return ok();
}

Task<ResumeAnswer> Sandboxes::resume_now(std::string team_id, std::string id) {
  CO_TRY(const auto entry, find(team_id, id));
  CO_TRY(const auto held, co_await with_deadline(hold_patience(*entry), hold(entry)));
  CO_TRY_DO(refuse_unchangeable(*entry));
  ResumeAnswer answer;
  if (entry->row.status != SandboxStatus::kRunning) {
    CO_TRY_DO(co_await resume_held(entry, answer));
  } else if (entry->unsettled && entry->guest_socket.empty()) {
    // It is to run and does not yet: its turn has not come. Now somebody waits for it.
    CO_TRY_DO(co_await settle_held(entry));
  }
  answer.sandbox = view(*entry);
  co_return std::move(answer);
}

// REQUIRES: the entry is held; its row is `paused` or `failed`.
Task<> Sandboxes::resume_held(EntryPointer entry, ResumeAnswer& answer) {
  ATOLL_FAULT_POINT("control.resume.begun");
  if (entry->row.status == SandboxStatus::kPaused && kept_memory(*entry) == PauseMemory::kKeep) {
    store::Transition running{.status = SandboxStatus::kRunning,
                              .generation = entry->row.generation + 1};
    rearm(*entry, running);
    CO_TRY_DO(co_await change(*entry, std::move(running), store::Durability::kQuick));
    ATOLL_FAULT_POINT("control.resume.recorded");
    auto thawed = co_await with_deadline(kNodeTimeout, node_.thaw(entry->row.id));
    ATOLL_FAULT_POINT("control.resume.thawed");
    if (thawed) {
      if (started_) {
        started_(entry->row);
      }
      if (network_keeper_ != nullptr && egress_) {
        (void)co_await network_keeper_->attach(entry->row, nullptr);  // it moves again
      }
      answer.restored = ResumeAnswer::Restored::kMemory;
      note_resumed(*entry, answer);
      co_return ok();
    }
    if (thawed.error().code != Code::kNotFound && thawed.error().reason != "not_running") {
      // Nobody knows whether it moves; it must not lose its memory to a node that is slow.
      unsettle(*entry);
      co_return fail(std::move(thawed).error().note(concat("resuming ", entry->row.id)));
    }
    answer.reason = concat("its processes were gone: ", thawed.error().message);
  } else {
    answer.reason = entry->row.status == SandboxStatus::kFailed
                        ? concat("it had failed: ", entry->row.failure)
                        : "";
  }
  entry->restarts.clear();
  if (auto restarted = co_await restart(entry); !restarted) {
    if (entry->row.status == SandboxStatus::kRunning) {
      unsettle(*entry);
    }
    co_return std::move(restarted);
  }
  if (entry->from_memory) {
    answer.restored = ResumeAnswer::Restored::kMemory;
    answer.reason.clear();
  } else {
    answer.restored = ResumeAnswer::Restored::kFilesystem;
    if (!entry->restart_reason.empty()) {
      answer.reason = concat("its memory could not be restored: ", entry->restart_reason);
    } else if (answer.reason.empty()) {
      answer.reason = "its memory was not kept";
    }
  }
  note_resumed(*entry, answer);
  co_return ok();
}

// The time to live begins again: otherwise it would be paused the moment it goes on.
void Sandboxes::rearm(const Entry& entry, store::Transition& transition) {
  transition.sets_expiry = true;
  transition.expires_at = deadline_after(now(), entry.row.ttl_seconds);
}

void Sandboxes::note_resumed(Entry& entry, const ResumeAnswer& answer) {
  resumes_.add();
  entry.last_used_at = now();
  schedule(entry, due_at(entry));
  LOG_INFO("sandbox resumed", {"sandbox", entry.row.id},
           {"from", answer.restored == ResumeAnswer::Restored::kMemory ? "memory" : "filesystem"});
}

}  // namespace atl::control
