// Making and destroying prepared cells, off the path of any request.
//
// One task decides, whenever something has changed or a moment has come that it worked out itself:
// how many of each kind there are to be, which is made next, which go. It has no clock that ticks.
#include <algorithm>

#include "base/fault_point.h"
#include "base/log.h"
#include "control/entry.h"
#include "control/limits.h"
#include "control/prepared_cells.h"
#include "control/prepared_kind.h"

namespace atl::control {
namespace {

// After a claim, before another cell is made for it.
constexpr Duration kPreparedQuiet = std::chrono::milliseconds{25};

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

}  // namespace

Task<> PreparedCells::run() {
  Scope scope{co_await current_context()};
  running_ = true;
  Result<> waited;
  while (waited) {
    changed_.clear();
    const Instant next = begin_work(scope);
    if (next == Instant::max()) {
      waited = co_await wait_for(changed_);
      continue;
    }
    const Duration pause = std::max(next - parts_.loop.now(), kPreparedShortestPause);
    waited = co_await with_deadline(pause, wait_for(changed_));
    if (!waited && waited.error().code == Code::kDeadlineExceeded) {
      waited = {};
    }
  }
  ending_ = true;
  (void)co_await shielded(destroy_all(scope));
  running_ = false;
  drained_.set();
  co_return std::move(waited);
}

// Begins what is to be done now. Answers when to look again if nothing happens.
Instant PreparedCells::begin_work(Scope& scope) {
  const Instant now = parts_.loop.now();
  Instant next = Instant::max();
  if (templates_changed_ && parts_.sandboxes.ready()) {
    templates_changed_ = false;
    review();
  }
  look_at_memory(now, next);
  allot_targets(now, next);
  for (const KindPointer& kind : kinds_) {
    condemn_idle(*kind, kind->keep);
  }
  forget_unwanted(now);
  if (!condemned_.empty() && destroying_ == 0) {
    if (destroy_again_ <= now) {
      ++destroying_;
      scope.spawn("destroy prepared", shielded(destroy_condemned()));
    } else {
      next = std::min(next, destroy_again_);
    }
  }
  while (may_make()) {
    Kind* const kind = neediest(now, next);
    if (kind == nullptr) {
      break;
    }
    const auto owner =
        std::ranges::find_if(kinds_, [&](const KindPointer& each) { return each.get() == kind; });
    ++kind->making;
    making_.push_back(*owner);
    scope.spawn("prepare", shielded(make(*owner)));
  }
  drained_.set();
  return next;
}

// --- how many --------------------------------------------------------------------------------

// Templates have changed: kinds of what they were before go, those with a minimum come.
void PreparedCells::review() {
  const Templates& templates = parts_.sandboxes.templates();
  std::erase_if(kinds_, [&](const KindPointer& kind) {
    const auto* const layers = templates.ready_layers(kind->template_name);
    describe(*kind);
    if (layers != nullptr && *layers == kind->layers) {
      return false;
    }
    kind->stale = true;
    condemn_idle(*kind, 0);
    return true;
  });
  templates.each_ready([&](const Template& value, const TemplateDefaults& defaults) {
    if (bounds_of(value.name).min_idle == 0) {
      return;
    }
    const auto limits = parts_.sandboxes.usual_limits(value.name);
    if (!limits) {
      return;
    }
    const Sandbox row{.team_id = value.team_id,
                      .template_name = value.name,
                      .layers = value.layers,
                      .limits = *limits,
                      .ephemeral_tmp = defaults.ephemeral_tmp};
    if (find(row, IdStyle::kReadable) == nullptr) {
      (void)learn(row, IdStyle::kReadable);
    }
  });
}

std::vector<Wish> PreparedCells::wishes(Instant now) const {
  std::vector<Wish> wishes;
  wishes.reserve(kinds_.size());
  std::map<std::string_view, std::size_t> teams{{"", kNoTeam}};
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const Kind& kind = *kinds_[i];
    const bool same = i > 0 && kinds_[i - 1]->template_name == kind.template_name;
    // One odd claim is not a demand: its like may never come again.
    const bool known = kind.usual || kind.claims > 1;
    wishes.push_back(
        {.group = same ? wishes.back().group : i,
         .team = teams.emplace(kind.team_id, teams.size()).first->second,
         .expected = known ? expected_claims(kind.demand.rate(now), making_time_) : 0.0,
         .min_idle = kind.holds_minimum() ? kind.bounds.min_idle : 0,
         .max_idle = kind.bounds.max_idle});
  }
  split_minima(wishes);
  return wishes;
}

// Between ids of both forms, as they were asked for: clients of one form must not find that the
// minimum was all for the other.
void PreparedCells::split_minima(std::vector<Wish>& wishes) const {
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    for (std::size_t j = i + 1; j < wishes.size() && wishes[j].group == wishes[i].group; ++j) {
      if (wishes[i].min_idle == 0 || wishes[j].min_idle == 0) {
        continue;
      }
      const std::size_t all = wishes[i].min_idle;
      const std::size_t claims = kinds_[i]->claims + kinds_[j]->claims;
      const std::size_t part =
          (all * kinds_[j]->claims + claims / 2) / std::max<std::size_t>(claims, 1);
      wishes[j].min_idle = all < 2 ? part : std::clamp<std::size_t>(part, 1, all - 1);
      wishes[i].min_idle = all - wishes[j].min_idle;
    }
  }
}

void PreparedCells::allot_targets(Instant now, Instant& next) {
  std::vector<Wish> wishes = this->wishes(now);
  const std::size_t room = memory_short_ ? 0 : parts_.options.memory_bytes / kPreparedCellBytes;
  allot(wishes, room);
  std::size_t spare = room - std::min(room, total_target(wishes));
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    Kind& kind = *kinds_[i];
    kind.target = kind.keep = wishes[i].target;
    const bool by_demand =
        kind.target > 0 && wishes[i].expected >= static_cast<double>(kind.target) - 0.5;
    if (by_demand && kind.coming() > 0) {
      const double rate = rate_below(kind.target, making_time_);
      next = std::min(next, kind.demand.falls_to(rate, now) + kPreparedShortestPause);
      const std::size_t slack =
          std::min({std::max<std::size_t>(1, kind.target / 8), spare,
                    kind.bounds.max_idle - std::min(kind.bounds.max_idle, kind.target)});
      kind.keep += slack;
      spare -= slack;
    }
  }
}

// Asked when there is something to do, and while it is short; else Sandboxes says when it is.
void PreparedCells::look_at_memory(Instant now, Instant& next) {
  if (parts_.options.memory_is_short && look_at_memory_ <= now) {
    memory_short_ = parts_.options.memory_is_short();
    look_at_memory_ = now + (memory_short_ ? kPressureInterval : kPreparedMemoryLook);
  }
  if (memory_short_) {
    next = std::min(next, look_at_memory_);
  }
}

void PreparedCells::on_memory(bool is_short) {
  if (is_short != memory_short_) {
    memory_short_ = is_short;
    look_at_memory_ = parts_.loop.now() + kPressureInterval;
    changed_.set();
  }
}

// Kinds without cells that nobody has asked for lately.
void PreparedCells::forget_unwanted(Instant now) {
  std::erase_if(kinds_, [&](const KindPointer& kind) {
    return kind->idle.empty() && kind->making == 0 && kind->target == 0 && !kind->holds_minimum() &&
           kind->demand.rate(now) < kForgottenDemand;
  });
}

// --- making ----------------------------------------------------------------------------------

bool PreparedCells::may_make() const {
  // Who waits for a cell comes first. When that never ends, the cells made here would not come
  // sooner either: every claim costs one.
  const std::size_t most = claims_making_ == 0                 ? parts_.options.at_once
                           : claims_making_ < kFewClaimsMaking ? 1
                                                               : 0;
  return !ending_ && making_.size() < most && parts_.sandboxes.ready();
}

// The kind that lacks the largest part of what it should have.
PreparedCells::Kind* PreparedCells::neediest(Instant now, Instant& next) const {
  Kind* best = nullptr;
  double most = 0;
  for (const KindPointer& kind : kinds_) {
    const std::size_t has = kind->coming();
    if (has >= kind->target) {
      continue;
    }
    if (kind->not_before > now) {
      next = std::min(next, kind->not_before);
      continue;
    }
    // Who has just claimed one works with it now: while there are enough, that comes first.
    const Instant quiet = kind->demand.last_claim() + kPreparedQuiet;
    if (2 * has >= kind->target && now < quiet) {
      next = std::min(next, quiet);
      continue;
    }
    const double lack = static_cast<double>(kind->target - has) / static_cast<double>(kind->target);
    if (lack > most) {
      most = lack;
      best = kind.get();
    }
  }
  return best;
}

Task<> PreparedCells::make(KindPointer kind) {
  const std::uint64_t session = session_;
  const Instant begin = parts_.loop.now();
  const std::string id = parts_.sandboxes.new_id(kind->template_name, kind->id_style);
  parts_.sandboxes.adopt_cell(id);
  being_made_.emplace(id, false);
  ATOLL_FAULT_POINT("control.prepared.begun");
  node::CreateRequest request{.id = id,
                              .hostname = id,
                              .layers = kind->layers,
                              .limits = node_limits(kind->limits),
                              .ephemeral_tmp = kind->ephemeral_tmp,
                              .in_background = true};
  auto cell = co_await with_deadline(kNodeTimeout, parts_.node.create(std::move(request)));
  ATOLL_FAULT_POINT("control.prepared.made");
  if (cell && parts_.options.warm_up) {
    if (auto warm = co_await parts_.options.warm_up(cell->guest_socket); !warm) {
      cell = fail(std::move(warm).error().note("warming it up"));
    }
  }
  const bool died = being_made_.extract(id).mapped();
  --kind->making;
  making_.erase(std::ranges::find(making_, kind));
  changed_.set();
  if (cell && died) {
    cell = fail(Code::kAborted, "it died at once");
  }
  if (!cell) {
    LOG_WARN("a cell could not be prepared", {"template", kind->template_name},
             {"error", cell.error()});
    failed_.add();
    back_off(*kind);
    condemn(id);  // nobody knows whether it is there
    co_return ok();
  }
  if (session != session_ || kind->stale || ending_) {
    condemn(id);
    co_return ok();
  }
  keep(kind, *std::move(cell), parts_.loop.now() - begin);
  co_return ok();
}

void PreparedCells::keep(const KindPointer& kind, node::CellInfo cell, Duration took) {
  made_.add();
  making_seconds_.observe_seconds(std::chrono::duration<double>(took).count());
  making_time_ = making_time_ == Duration{} ? took : (making_time_ * 7 + took) / 8;
  kind->idle.push_back(std::move(cell));
  count(*kind, 1);
}

void PreparedCells::back_off(Kind& kind) {
  kind.pause = std::clamp(kind.pause * 2, kPreparedFirstPause, kPreparedLastPause);
  kind.not_before = parts_.loop.now() + kind.pause;
  changed_.set();
}

// --- destroying ------------------------------------------------------------------------------

void PreparedCells::condemn(std::string id) {
  condemned_.push_back(std::move(id));
  changed_.set();
}

void PreparedCells::condemn_idle(Kind& kind, std::size_t keep) {
  while (kind.idle.size() > keep) {
    condemn(std::move(kind.idle.back().id));
    kind.idle.pop_back();
    count(kind, -1);
    drained_count_.add();
  }
}

// One after another: nobody waits for it. What cannot be destroyed now is tried again.
Task<> PreparedCells::destroy_condemned() {
  while (!condemned_.empty()) {
    const std::string id = std::move(condemned_.front());
    condemned_.pop_front();
    auto destroyed = co_await parts_.node.destroy({.id = id, .in_background = true});
    ATOLL_FAULT_POINT("control.prepared.destroyed");
    if (destroyed || destroyed.error().code == Code::kNotFound || ending_) {
      parts_.sandboxes.release_cell(id);
      orphans_.erase(id);
      destroy_pause_ = {};
      continue;
    }
    LOG_WARN("a prepared cell is not destroyed yet", {"cell", id}, {"error", destroyed.error()});
    condemned_.push_back(id);
    destroy_pause_ = std::clamp(destroy_pause_ * 2, kPreparedFirstPause, kPreparedLastPause);
    destroy_again_ = parts_.loop.now() + destroy_pause_;
    break;
  }
  --destroying_;
  changed_.set();
  co_return ok();
}

// At the end: before the node stops, which would keep them.
Task<> PreparedCells::destroy_all(Scope& scope) {
  (void)co_await scope.join();
  for (const KindPointer& kind : kinds_) {
    condemn_idle(*kind, 0);
  }
  kinds_.clear();
  Scope destroying{co_await current_context()};
  for (std::size_t i = 0; i < std::min(condemned_.size(), kPreparedDestroyedAtOnce); ++i) {
    ++destroying_;
    destroying.spawn("destroy prepared", destroy_condemned());
  }
  co_return co_await destroying.join();
}

bool PreparedCells::has_stale() const {
  return templates_changed_ || !condemned_.empty() || destroying_ > 0 ||
         std::ranges::any_of(making_, &Kind::stale);
}

Task<> PreparedCells::drain_stale() {
  const Instant end = parts_.loop.now() + kNodeTimeout;
  while (running_ && !ending_ && parts_.sandboxes.ready() && has_stale()) {
    drained_.clear();
    const Duration left = end - parts_.loop.now();
    if (left <= Duration{} || !co_await with_deadline(left, wait_for(drained_))) {
      LOG_WARN("prepared cells of a template that changed are still there");
      break;
    }
  }
  if (!orphans_.empty()) {
    co_return fail(Code::kUnavailable, "cells of an earlier process are still being destroyed");
  }
  co_return ok();
}

}  // namespace atl::control
