// Listing: newest first, in pages that neither repeat nor skip a sandbox while others come and go.
//
// The order is (created_at, id), which never changes for a sandbox, so a page after a cursor does
// not depend on what happened to the pages before.
#include <algorithm>

#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {
namespace {

bool comes_before(UnixMillis created_at, std::string_view id, UnixMillis other_created_at,
                  std::string_view other_id) {
  return created_at != other_created_at ? created_at > other_created_at : id < other_id;
}

bool has_labels(const Sandbox& row, const ListRequest& request) {
  return std::ranges::all_of(request.labels, [&](const auto& wanted) {
    const auto found = row.labels.find(wanted.first);
    return found != row.labels.end() && found->second == wanted.second;
  });
}

// All but the status, which is not only the row's.
bool matches(const Sandbox& row, const ListRequest& request) {
  return row.team_id == request.team_id &&
         (!request.template_name || row.template_name == *request.template_name) &&
         (!request.name || row.name == *request.name) &&
         row.name.starts_with(request.name_prefix) &&
         (!request.after ||
          comes_before(request.after->created_at, request.after->id, row.created_at, row.id)) &&
         has_labels(row, request);
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

void Sandboxes::each(const std::function<void(const Sandbox&)>& look) const {
  for (const auto& [id, entry] : entries_) {
    look(entry->row);
  }
}

ListAnswer Sandboxes::list(const ListRequest& request) const {
  std::vector<const Entry*> found;
  for (const auto& [id, entry] : entries_) {
    const SandboxStatus status = view_status(*entry);
    if ((!request.status || status == *request.status) &&
        (!request.paused || (status == SandboxStatus::kPaused) == *request.paused) &&
        matches(entry->row, request)) {
      found.push_back(entry.get());
    }
  }
  std::ranges::sort(found, [](const Entry* a, const Entry* b) {
    return comes_before(a->row.created_at, a->row.id, b->row.created_at, b->row.id);
  });
  ListAnswer answer;
  const std::size_t begin = std::min(request.offset, found.size());
  const std::size_t end = begin + std::min(request.limit, found.size() - begin);
  for (std::size_t i = begin; i < end; ++i) {
    answer.sandboxes.push_back(view(*found[i]));
  }
  answer.has_more = end < found.size();
  return answer;
}

}  // namespace atl::control
