// One kind of prepared cells. Private to control's PreparedCells.
#pragma once

#include "control/prepared_cells.h"

namespace atl::control {

// Shapes that one team's claims and templates may teach: others have room for theirs.
inline constexpr std::size_t kMaxKindsOfTeam = 16;

struct PreparedCells::Kind {
  std::string template_name;
  std::string team_id;  // who taught it; empty: what the platform itself offers
  std::vector<std::string> layers;
  store::Limits limits;
  bool ephemeral_tmp = false;
  IdStyle id_style = IdStyle::kReadable;

  Demand demand;
  std::size_t claims = 0;  // seen so far
  bool usual = false;      // what the template says, when the claim says nothing
  bool stale = false;      // its template is another now, or gone
  PoolBounds bounds;
  std::deque<node::CellInfo> idle;  // oldest first
  std::size_t making = 0;
  std::size_t target = 0;
  std::size_t keep = 0;  // more than these go: a target that moves to and fro destroys nothing
  Gauge* gauge = nullptr;
  Duration pause{};    // after failures and deaths, until one is claimed
  Instant not_before;  // the next is made

  // Others of the template, of shapes that clients thought up, are forgotten when nobody wants
  // them.
  bool holds_minimum() const { return usual && bounds.min_idle > 0; }
  std::size_t coming() const { return idle.size() + making; }
  bool matches(const Sandbox& row, IdStyle style) const {
    return id_style == style && ephemeral_tmp == row.ephemeral_tmp &&
           template_name == row.template_name && layers == row.layers;
  }
};

}  // namespace atl::control
