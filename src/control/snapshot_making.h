// Names of snapshots on the node, and those that have no row so far. Private to snapshots*.cpp.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace atl::control {

// Those of forks and moments have no row; start() knows them by their name too.
inline constexpr std::string_view kSnapshotPrefix = "snap-";
inline constexpr std::string_view kStartPrefix = "snap-start-";  // of a template
inline constexpr std::string_view kForkPrefix = "fork-";

// A disk that is being made, as long as this lives.
class Making {
 public:
  using Table = std::map<std::string, std::string, std::less<>>;  // whose it will be
  Making(Table& table, std::string id, std::string team_id) : table_(table), id_(std::move(id)) {
    table_.emplace(id_, std::move(team_id));
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  ~Making() { table_.erase(id_); }

 private:
  Table& table_;
  std::string id_;
};

}  // namespace atl::control
