// Names of snapshots on the node, and those that have no row so far. Private to snapshots*.cpp.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace atl::control {

// Those of forks and moments have no row; start() knows them by their name too.
inline constexpr std::string_view kSnapshotPrefix = "snap-";
inline constexpr std::string_view kForkPrefix = "fork-";

// A disk that is being made, as long as this lives.
class Making {
 public:
  using Table = std::set<std::string, std::less<>>;
  Making(Table& table, std::string id) : table_(table), id_(std::move(id)) { table_.insert(id_); }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  ~Making() { table_.erase(id_); }

 private:
  Table& table_;
  std::string id_;
};

}  // namespace atl::control
