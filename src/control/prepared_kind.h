// One kind of prepared cells. Private to control's PreparedCells.
#pragma once

#include "control/prepared_cells.h"

namespace atl::control {

struct PreparedCells::Kind {
  std::string template_name;
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
  Duration pause{};    // after failures and deaths, until one is claimed
  Instant not_before;  // the next is made

  bool matches(const Sandbox& row, IdStyle style) const {
    return id_style == style && ephemeral_tmp == row.ephemeral_tmp &&
           template_name == row.template_name && layers == row.layers;
  }
};

}  // namespace atl::control
