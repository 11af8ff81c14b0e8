// The cells behind a claim: one that was prepared, or a new one, and how they go when the claim
// comes to nothing.
#include "base/fault_point.h"
#include "base/log.h"
#include "base/trace.h"
#include "control/entry.h"
#include "control/limits.h"
#include "control/prepared_cells.h"

namespace atl::control {
namespace {

// An only child need not have a copy of a moment that nobody else wants.
bool takes_snapshot(const ClaimRequest& request) {
  return request.origin && request.origin->passing && request.count == 1 && !request.origin->memory;
}

}  // namespace

// The cell that has the id of the row, when one is ready. Whatever happens from here on, it is this
// sandbox's or nobody's.
void Sandboxes::take_prepared(const ClaimRequest& request, Entry& entry) {
  if (auto taken = prepared_->take(entry.row, request.id_style)) {
    CHECK(taken->cell.id == entry.row.id);
    entry.prepared = std::move(taken->cell);
    entry.prepared_fits = taken->fits;
  }
}

Task<> Sandboxes::start_cell(EntryPointer entry, const ClaimRequest& request, Result<>& outcome) {
  Result<node::CellInfo> cell = fail(Code::kNotFound, "none is prepared");
  if (entry->prepared) {
    cell = co_await use_prepared(entry);
    co_await mark(Step::kPool);
  }
  if (!cell) {
    cell = co_await make_cell(entry, request);
    co_await mark(Step::kNode);
  }
  if (!cell) {
    outcome = fail(std::move(cell).error().note("starting the sandbox"));
    co_return ok();
  }
  CO_TRY_DO(co_await greet_cell(entry, *std::move(cell)));
  co_await mark(Step::kNetwork);
  if (request.paused && !request.awake_first) {
    outcome = co_await stop_cell(entry);
  }
  co_return ok();
}

// One that cannot get its limits is no use; its place is free then.
Task<node::CellInfo> Sandboxes::use_prepared(EntryPointer entry) {
  node::CellInfo cell = *std::exchange(entry->prepared, std::nullopt);
  ATOLL_FAULT_POINT("control.claim.prepared");
  if (entry->prepared_fits) {
    co_return std::move(cell);
  }
  auto tightened = co_await with_deadline(
      kNodeTimeout, node_.set_limits(entry->row.id, node_limits(entry->row.limits)));
  if (tightened) {
    co_return std::move(cell);
  }
  LOG_WARN("a prepared cell cannot be tightened", {"sandbox", entry->row.id},
           {"error", tightened.error()});
  auto destroyed = co_await with_deadline(kNodeTimeout, node_.destroy({.id = entry->row.id}));
  if (!destroyed && destroyed.error().code != Code::kNotFound) {
    LOG_WARN("nor destroyed", {"sandbox", entry->row.id}, {"error", destroyed.error()});
  }
  co_return fail(std::move(tightened).error());
}

Task<node::CellInfo> Sandboxes::make_cell(EntryPointer entry, const ClaimRequest& request) {
  node::CreateRequest create{.id = entry->row.id,
                             .hostname = entry->row.id,
                             .layers = entry->row.layers,
                             .limits = node_limits(entry->row.limits),
                             .from_snapshot = request.origin ? request.origin->snapshot_id : "",
                             .takes_snapshot = takes_snapshot(request),
                             .commit_later = request.origin && !request.origin->snapshot_id.empty(),
                             .restore_memory = request.origin && request.origin->memory,
                             .ephemeral_tmp = entry->row.ephemeral_tmp,
                             .mounts = node_mounts(entry->row.mounts)};
  if (prepared_ != nullptr) {
    prepared_->note_making(1);
  }
  auto cell = co_await with_deadline(request.origin ? kPauseTimeout : kNodeTimeout,
                                     node_.create(std::move(create)));
  if (prepared_ != nullptr) {
    prepared_->note_making(-1);
  }
  co_return std::move(cell);
}

// A new cell stands still before its row says so. Without a freezer only its disk stays.
Task<> Sandboxes::stop_cell(EntryPointer entry) {
  auto frozen = co_await with_deadline(kPauseTimeout, node_.freeze(entry->row.id));
  if (!frozen && frozen.error().code == Code::kUnimplemented) {
    co_return co_await end_cell(entry, true);
  }
  if (!frozen) {
    co_return fail(std::move(frozen).error().note("pausing the new sandbox"));
  }
  co_return ok();
}

// REQUIRES: the entries are held. What cannot be undone now is undone in the background.
Task<> Sandboxes::undo_claim(std::vector<EntryPointer> entries, std::string key) {
  Scope undoing{co_await current_context()};
  for (const auto& entry : entries) {
    entry->unwanted = true;
    entry->claim_key = key;
    lose_cell(*entry);
    undoing.spawn("undo", finish_deletion(entry));
  }
  co_return co_await undoing.join();
}

}  // namespace atl::control
