// Listing: newest first, in pages that neither repeat nor skip a sandbox while others come and go.
//
// The order is (created_at, id), which never changes for a sandbox, so a page after a cursor does
// not depend on what happened to the pages before. It is kept for each team, so a page costs what
// is on it, however many sandboxes there are; and what was looked at and left out, where a filter
// leaves out many or an offset is given.
#include <algorithm>

#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {
namespace {

bool has_labels(const Sandbox& row, const ListRequest& request) {
  return std::ranges::all_of(request.labels, [&](const auto& wanted) {
    const auto found = row.labels.find(wanted.first);
    return found != row.labels.end() && found->second == wanted.second;
  });
}

// All but the status, which is not only the row's.
bool matches(const Sandbox& row, const ListRequest& request) {
  return (!request.template_name || row.template_name == *request.template_name) &&
         (!request.name || row.name == *request.name) &&
         row.name.starts_with(request.name_prefix) && has_labels(row, request);
}

}  // namespace

std::string format_cursor(const ListCursor& cursor) {
  return concat(cursor.created_at, ".", cursor.id);
}

std::optional<ListCursor> parse_cursor(std::string_view text) {
  const auto dot = text.find('.');
  if (dot == std::string_view::npos || text.size() - dot - 1 > kMaxSandboxIdBytes) {
    return std::nullopt;
  }
  const auto created_at = parse_i64(text.substr(0, dot));
  if (!created_at) {
    return std::nullopt;
  }
  return ListCursor{*created_at, std::string{text.substr(dot + 1)}};
}

std::vector<Sandbox> Sandboxes::all() const {
  std::vector<Sandbox> rows;
  rows.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) {
    rows.push_back(entry->row);
  }
  return rows;
}

// With the status that list() tells: who counts and who lists must agree.
void Sandboxes::each(const std::function<void(const Sandbox&)>& look) const {
  for (const auto& [id, entry] : entries_) {
    if (view_status(*entry) == entry->row.status) {
      look(entry->row);
    } else {
      look(view(*entry));
    }
  }
}

void Sandboxes::remember(const EntryPointer& entry) {
  const Sandbox& row = entry->row;
  list_orders_[row.team_id].emplace(ListCursor{row.created_at, row.id}, entry.get());
  entries_.emplace(row.id, entry);
}

// From the cursor on, and no further than the page and one more.
ListAnswer Sandboxes::list(const ListRequest& request) const {
  ListAnswer answer;
  const auto order = list_orders_.find(request.team_id);
  if (order == list_orders_.end()) {
    return answer;
  }
  std::size_t left_out = 0;
  auto at = request.after ? order->second.upper_bound(*request.after) : order->second.begin();
  for (; at != order->second.end(); ++at) {
    const Entry& entry = *at->second;
    const SandboxStatus status = view_status(entry);
    if ((request.status && status != *request.status) ||
        (request.paused && (status == SandboxStatus::kPaused) != *request.paused) ||
        !matches(entry.row, request) || left_out++ < request.offset) {
      continue;
    }
    if (answer.sandboxes.size() == request.limit) {
      answer.has_more = true;
      break;
    }
    answer.sandboxes.push_back(view(entry));
  }
  return answer;
}

}  // namespace atl::control
