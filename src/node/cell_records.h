// What the node knows about each cell, on disk: one small text file per cell in <data-dir>/cells.
//
//   state running          creating | running | dead
//   pid 4711
//   start_time 123456
//   uid_base 1879048192
//   fresh_upper 1          the upper was made by the create that wrote this record
//   boot_id 5f0c...        when it was written; absent in old ones
//   layers a,b             what it stands on; may be absent
//   volumes a,b            what it writes to beside its upper; may be absent
//   read_volumes a,b       what it has mounted beside these; may be absent
//
// The record is written before anything of the cell exists and written over in one step afterwards,
// so whatever a killed node leaves behind has a record that names it. Records survive a killed
// process, not a lost machine (cells do not either), hence no fsync on the create path. After a
// loss of power that of a running cell may be empty (load() makes it dead, with its id alone), or
// older than what it is about: `creating` of an earlier boot says nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace atl::node {

struct StoredCell {
  enum class State : std::uint8_t { kCreating, kRunning, kDead };

  std::string id;
  State state = State::kCreating;
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  std::uint32_t uid_base = 0;
  bool fresh_upper = false;
  std::string boot_id;
  std::vector<std::string> layers;
  std::vector<std::string> volumes;
  std::vector<std::string> read_volumes;
};

std::string format_record(const StoredCell& cell);
Result<StoredCell> parse_record(std::string_view id, std::string_view text);

Result<std::string> read_boot_id();

// Thread-safe for different ids.
class CellRecords {
 public:
  explicit CellRecords(std::string directory) : directory_(std::move(directory)) {}

  Result<> put(const StoredCell& cell) const;
  Result<> remove(const std::string& id) const;  // idempotent
  // All records. One that cannot be read comes back with its id alone, in state kDead.
  // Removes what a killed writer left.
  Result<std::vector<StoredCell>> load() const;

 private:
  std::string directory_;
};

}  // namespace atl::node
