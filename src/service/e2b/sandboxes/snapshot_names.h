// Names of snapshots: [namespace/]alias[:tag], where the namespace is the team's. Control keeps
// alias:tag as the name; the newest snapshot of a name is the one it means.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "control/snapshots.h"

namespace atl::service::e2b {

// "my-state" -> "my-state:default"; kInvalidArgument for what is no name, or another team's.
Result<std::string> parse_snapshot_name(std::string_view team_id, std::string_view text);
// What clients are told, and may say again: namespace/alias:tag, or its id when it has no name.
std::string snapshot_id(const control::Snapshot& snapshot);
// Whether it was asked for as clients are told to, so that nothing else can be meant.
bool is_exactly(const control::Snapshot& snapshot, std::string_view asked);
// Whether a snapshot of the team has this alias, with whatever tag.
bool has_snapshot_alias(const control::Snapshots& snapshots, std::string_view team_id,
                        std::string_view alias);
// By id or name.
std::optional<control::Snapshot> find_snapshot(const control::Snapshots& snapshots,
                                               std::string_view team_id, std::string_view asked);

}  // namespace atl::service::e2b
