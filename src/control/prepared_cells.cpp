// What others ask of prepared cells and tell them. How they are made: prepared_refill.cpp.
#include "control/prepared_cells.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/memory_pressure.h"
#include "control/prepared_kind.h"
#include "control/sandboxes.h"

namespace atl::control {
namespace {

bool fits_in(const store::Limits& wanted, const store::Limits& limits) {
  return wanted.memory_bytes <= limits.memory_bytes && wanted.cpu_millis <= limits.cpu_millis &&
         wanted.process_count <= limits.process_count && wanted.disk_bytes <= limits.disk_bytes;
}

constexpr std::uint64_t kPartOfMemory = 16;

}  // namespace

PreparedOptions host_prepared_options(std::size_t max_idle) {
  const auto memory = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES))) *
                      static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
  const long cores = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
  return {.max_idle = max_idle,
          .memory_bytes = memory / kPartOfMemory,
          .at_once =
              std::clamp(static_cast<std::size_t>(cores) / 2, std::size_t{1}, kMaxPreparedAtOnce),
          .memory_is_short = host_memory_is_short};
}

PreparedCells::PreparedCells(Parts parts)
    : parts_(std::move(parts)),
      taken_(parts_.metrics.counter("atoll_control_claims_prepared_total",
                                    "Sandboxes that began as a prepared cell")),
      tightened_(parts_.metrics.counter("atoll_control_claims_tightened_total",
                                        "Of those, with limits tighter than the cell had")),
      missed_(parts_.metrics.counter("atoll_control_claims_unprepared_total",
                                     "Sandboxes for which no cell was ready")),
      made_(parts_.metrics.counter("atoll_control_prepared_made_total", "Cells prepared")),
      failed_(parts_.metrics.counter("atoll_control_prepared_failed_total",
                                     "Cells that could not be prepared, or died before a claim")),
      drained_count_(parts_.metrics.counter("atoll_control_prepared_drained_total",
                                            "Prepared cells destroyed without a claim")),
      making_seconds_(parts_.metrics.histogram("atoll_control_prepared_making_seconds",
                                               "Time it took to prepare a cell")) {
  parts_.sandboxes.on_prepared(this);
  parts_.sandboxes.changeable_templates().on_layers_changed([this] {
    templates_changed_ = true;
    changed_.set();
  });
}

PreparedCells::~PreparedCells() {
  parts_.sandboxes.changeable_templates().on_layers_changed({});
  parts_.sandboxes.on_prepared(nullptr);
}

// --- claims ----------------------------------------------------------------------------------

PreparedCells::Kind* PreparedCells::find(const Sandbox& row, IdStyle style) const {
  const auto found = std::ranges::find_if(kinds_, [&](const KindPointer& kind) {
    return kind->limits == row.limits && kind->matches(row, style);
  });
  return found == kinds_.end() ? nullptr : found->get();
}

// One with a cell that is larger in some way and smaller in none.
PreparedCells::Kind* PreparedCells::wider(const Sandbox& row, IdStyle style) const {
  const auto found = std::ranges::find_if(kinds_, [&](const KindPointer& kind) {
    return !kind->idle.empty() && fits_in(row.limits, kind->limits) && kind->matches(row, style);
  });
  return found == kinds_.end() ? nullptr : found->get();
}

// The least wanted kind without cells gives way; of the same team, when that has its part. When all
// have some, nothing is learnt.
bool PreparedCells::makes_room_for_kind(std::string_view team_id) {
  const auto own = std::ranges::count(
      kinds_, team_id, [](const KindPointer& kind) { return std::string_view{kind->team_id}; });
  const bool full = !team_id.empty() && static_cast<std::size_t>(own) >= kMaxKindsOfTeam;
  if (!full && kinds_.size() < kMaxPreparedKinds) {
    return true;
  }
  const Instant now = parts_.loop.now();
  auto least = kinds_.end();
  for (auto each = kinds_.begin(); each != kinds_.end(); ++each) {
    const Kind& kind = **each;
    const bool gives_way =
        kind.coming() == 0 && !kind.holds_minimum() && (!full || kind.team_id == team_id);
    if (gives_way &&
        (least == kinds_.end() || kind.demand.rate(now) < (*least)->demand.rate(now))) {
      least = each;
    }
  }
  if (least == kinds_.end()) {
    return false;
  }
  kinds_.erase(least);
  return true;
}

// What its template says about it.
void PreparedCells::describe(Kind& kind) const {
  const auto limits = parts_.sandboxes.usual_limits(kind.template_name);
  const TemplateDefaults& defaults = parts_.sandboxes.templates().defaults(kind.template_name);
  kind.bounds = bounds_of(kind.template_name);
  kind.usual = limits && *limits == kind.limits && defaults.ephemeral_tmp == kind.ephemeral_tmp;
}

// What everybody gets of a builtin template is nobody's.
std::string PreparedCells::team_of(const Kind& kind, const Sandbox& row) const {
  const auto found = parts_.sandboxes.templates().find(kind.template_name, row.team_id);
  return kind.usual && found && found->builtin ? "" : row.team_id;
}

PreparedCells::Kind* PreparedCells::learn(const Sandbox& row, IdStyle style) {
  auto kind = std::make_shared<Kind>();
  kind->template_name = row.template_name;
  kind->layers = row.layers;
  kind->limits = row.limits;
  kind->ephemeral_tmp = row.ephemeral_tmp;
  kind->id_style = style;
  describe(*kind);
  kind->team_id = team_of(*kind, row);
  if (!makes_room_for_kind(kind->team_id)) {
    return nullptr;
  }
  kind->gauge = &gauge_of(kind->template_name);
  const auto place = std::ranges::upper_bound(
      kinds_, kind->template_name, {},
      [](const KindPointer& each) -> const std::string& { return each->template_name; });
  return kinds_.insert(place, std::move(kind))->get();
}

PreparedCells::Taken PreparedCells::pop(Kind& kind, bool fits) {
  Taken taken{.cell = std::move(kind.idle.front()), .fits = fits};
  kind.idle.pop_front();
  kind.pause = {};
  count(kind, -1);
  parts_.sandboxes.release_cell(taken.cell.id);
  taken_.add();
  tightened_.add(fits ? 0 : 1);
  return taken;
}

std::string PreparedCells::next_id(const Sandbox& row, IdStyle style) const {
  if (!running_ || ending_) {
    return "";
  }
  Kind* kind = find(row, style);
  if (kind == nullptr || kind->idle.empty()) {
    kind = wider(row, style);
  }
  return kind == nullptr ? "" : kind->idle.front().id;
}

// Whether there is something to do for it. Who ends making one looks anyway.
bool PreparedCells::is_behind(const Kind& kind) const {
  if (making_.size() >= parts_.options.at_once) {
    return false;
  }
  const double expected = expected_claims(kind.demand.rate(parts_.loop.now()), making_time_);
  const auto wanted =
      std::min(static_cast<std::size_t>(std::llround(expected)), kind.bounds.max_idle);
  return kind.coming() < std::max(kind.target, wanted);
}

std::optional<PreparedCells::Taken> PreparedCells::take(const Sandbox& row, IdStyle style) {
  if (!running_ || ending_) {
    return std::nullopt;
  }
  Kind* kind = find(row, style);
  if (kind == nullptr) {
    kind = learn(row, style);
  }
  std::optional<Taken> taken;
  if (kind != nullptr) {
    ++kind->claims;
    kind->demand.note(parts_.loop.now());
    if (!kind->idle.empty()) {
      taken = pop(*kind, true);
    }
    if (is_behind(*kind)) {
      changed_.set();
    }
  }
  if (taken) {
    return taken;
  }
  if (Kind* const other = wider(row, style); other != nullptr) {
    taken = pop(*other, false);
    changed_.set();
    return taken;
  }
  missed_.add();
  return std::nullopt;
}

void PreparedCells::discard(std::string id) {
  parts_.sandboxes.adopt_cell(id);
  condemn(std::move(id));
}

void PreparedCells::destroy_orphans(std::vector<std::string> ids) {
  for (std::string& id : ids) {
    orphans_.insert(id);
    discard(std::move(id));
  }
}

void PreparedCells::note_making(std::ptrdiff_t change) {
  claims_making_ = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(claims_making_) + change);
  if (claims_making_ == 0) {
    changed_.set();
  }
}

// --- the node --------------------------------------------------------------------------------

void PreparedCells::on_died(std::string_view id) {
  if (const auto found = being_made_.find(id); found != being_made_.end()) {
    found->second = true;
    return;
  }
  for (const KindPointer& kind : kinds_) {
    const auto found = std::ranges::find(kind->idle, id, &node::CellInfo::id);
    if (found == kind->idle.end()) {
      continue;
    }
    LOG_WARN("a prepared cell died", {"cell", id}, {"template", kind->template_name});
    condemn(std::move(found->id));
    kind->idle.erase(found);
    count(*kind, -1);
    failed_.add();
    back_off(*kind);
    return;
  }
}

void PreparedCells::on_node_lost() {
  ++session_;
  for (const KindPointer& kind : kinds_) {
    for (const node::CellInfo& cell : kind->idle) {
      parts_.sandboxes.release_cell(cell.id);
    }
    drained_count_.add(kind->idle.size());
    count(*kind, -static_cast<std::ptrdiff_t>(kind->idle.size()));
    kind->idle.clear();
  }
}

// --- looking ---------------------------------------------------------------------------------

std::size_t PreparedCells::idle_of(std::string_view template_name) const {
  std::size_t sum = 0;
  for (const KindPointer& kind : kinds_) {
    sum += kind->template_name == template_name ? kind->idle.size() : 0;
  }
  return sum;
}

// The operator can do without: then no template has a pool, whatever it says.
PoolBounds PreparedCells::bounds_of(std::string_view template_name) const {
  const std::size_t most = parts_.options.max_idle;
  const auto& own = parts_.sandboxes.templates().defaults(template_name).pool;
  if (most == 0) {
    return {};
  }
  if (own) {
    return *own;
  }
  const std::size_t least = template_name == kDefaultTemplate ? kDefaultMinIdle : 0;
  return {.min_idle = std::min(least, most), .max_idle = most};
}

std::set<std::string> PreparedCells::used_layers() const {
  std::set<std::string> layers;
  for (const std::vector<KindPointer>* const kinds : {&kinds_, &making_}) {
    for (const KindPointer& kind : *kinds) {
      if (!kind->idle.empty() || kind->making > 0) {
        layers.insert(kind->layers.begin(), kind->layers.end());
      }
    }
  }
  return layers;
}

// Series stay for ever: templates that come and go must not fill the memory with them.
Gauge& PreparedCells::gauge_of(const std::string& template_name) {
  const bool own = labelled_.contains(template_name) || labelled_.size() < kMaxPreparedKinds;
  if (own) {
    labelled_.insert(template_name);
  }
  return parts_.metrics.gauge(
      "atoll_control_prepared_cells_count", "Cells that wait for a claim",
      concat("template=\"", own ? std::string_view{template_name} : "other", "\""));
}

void PreparedCells::count(const Kind& kind, std::ptrdiff_t change) {
  kind.gauge->add(change);
}

}  // namespace atl::control
