#include "service/e2b/sandboxes/snapshot_names.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::service::e2b {
namespace {

constexpr std::string_view kDefaultTag = "default";
constexpr std::size_t kMaxNameBytes = 128;

bool is_word(std::string_view text, bool dots) {
  const auto good = [dots](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           (dots && c == '.');
  };
  return !text.empty() && text.size() <= kMaxNameBytes && std::ranges::all_of(text, good);
}

}  // namespace

Result<std::string> parse_snapshot_name(std::string_view team_id, std::string_view text) {
  const std::string lower = to_lower(trim(text));
  std::string_view alias = lower;
  if (const auto slash = alias.find('/'); slash != std::string_view::npos) {
    if (alias.substr(0, slash) != to_lower(team_id)) {
      return fail(Code::kInvalidArgument,
                  concat("the namespace of name must be \"", team_id, "\", or left out"));
    }
    alias.remove_prefix(slash + 1);
  }
  std::string_view tag = kDefaultTag;
  if (const auto colon = alias.find(':'); colon != std::string_view::npos) {
    tag = alias.substr(colon + 1);
    alias = alias.substr(0, colon);
  }
  if (!is_word(alias, false) || !is_word(tag, true)) {
    return fail(Code::kInvalidArgument,
                "name must be alias or alias:tag, of a-z, 0-9, '-' and '_', tags also with '.'");
  }
  return concat(alias, ":", tag);
}

std::string snapshot_id(const control::Snapshot& snapshot) {
  // What Atoll's own clients call their snapshots need not be a name here.
  const auto name = parse_snapshot_name(snapshot.team_id, snapshot.name);
  return name ? concat(to_lower(snapshot.team_id), "/", *name) : snapshot.id;
}

bool is_exactly(const control::Snapshot& snapshot, std::string_view asked) {
  return asked == snapshot.id || asked == snapshot_id(snapshot);
}

bool has_snapshot_alias(const control::Snapshots& snapshots, std::string_view team_id,
                        std::string_view alias) {
  return std::ranges::any_of(snapshots.list_all(team_id), [&](const control::Snapshot& snapshot) {
    const auto name = parse_snapshot_name(team_id, snapshot.name);
    return name && name->substr(0, name->find(':')) == alias;
  });
}

std::optional<control::Snapshot> find_snapshot(const control::Snapshots& snapshots,
                                               std::string_view team_id, std::string_view asked) {
  const std::string_view bare = asked.substr(0, asked.find(':'));
  if (auto by_id = snapshots.get(team_id, bare)) {
    return *std::move(by_id);
  }
  const auto name = parse_snapshot_name(team_id, asked);
  if (!name) {
    return std::nullopt;
  }
  std::optional<control::Snapshot> newest;
  for (control::Snapshot& snapshot : snapshots.list_all(team_id)) {
    const auto own = parse_snapshot_name(team_id, snapshot.name);
    if (own && *own == *name) {
      newest = std::move(snapshot);
    }
  }
  return newest;
}

}  // namespace atl::service::e2b
