// The memory of cells, on disk: one directory per dump, in the pool, for root only.
//
//   cell-ID         of a cell that does not run; goes with its disk
//   snapshot-NAME   of the moment of a snapshot; goes with that
//
// A dump is filled under a name of its own and has its own name only when it is whole. One that is
// about to run again loses it first: memory continues once, or a disk would meet its own future.
// Thread-safe for different names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace atl::node {

class Dumps {
 public:
  Dumps() = default;  // nothing can be kept here
  explicit Dumps(std::string directory) : directory_(std::move(directory)) {}

  static std::string of_cell(const std::string& id) { return "cell-" + id; }
  static std::string of_snapshot(const std::string& name) { return "snapshot-" + name; }

  bool has(const std::string& name) const;
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  // Bytes on disk; 0 when there is none.
  std::uint64_t size(const std::string& name) const;

  // An empty directory to fill.
  Result<std::string> begin(const std::string& name) const;
  Result<> finish(const std::string& name) const;  // durable when it returns
  void abandon(const std::string& name) const;
  // Durable when it returns, as a removal is: nothing may run before.
  Result<> use_up(const std::string& name) const;
  Result<> remove(const std::string& name) const;  // idempotent
  // Shares the files: a dump that is whole never changes.
  Result<> copy(const std::string& from, const std::string& to) const;
  Result<std::vector<std::string>> list() const;

  // Removes what is neither whole nor in use, after whoever still fills it has ended: a dump goes
  // on when its node is killed, and its cell must not move until then.
  Result<> collect() const;

 private:
  std::string directory_;
};

}  // namespace atl::node
