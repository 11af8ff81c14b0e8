// What differs between the backends: how one directory that can be deleted and limited as a whole
// is made. Everything else (names, atomic appearance, trash) is the same and lives in
// directory_pool.cpp. A volume is named by its parent's descriptor and a single path component.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "layers/copy_tree.h"
#include "layers/room.h"

namespace atl::layers {

class Volumes {
 public:
  virtual ~Volumes() = default;

  virtual Backend backend() const = 0;
  virtual bool has_quota() const = 0;
  // True when `destroy` costs the same for any size; else it belongs off the caller's path.
  virtual bool destroys_quickly() const = 0;

  // An empty volume, limited from its first byte when `limit_bytes` is not 0 and there is quota.
  virtual Result<> create(int parent_fd, const std::string& name, std::uint64_t limit_bytes) = 0;
  // A volume like `from` at one moment, without a limit. True in `snapshots_whole`: it appears
  // whole or not at all, durable, at the same cost for any size; else it is a copy that takes its
  // time.
  virtual bool snapshots_whole() const = 0;
  virtual Result<> snapshot(const TreePlace& from, const TreePlace& to, bool read_only) = 0;
  // All that was written to the volume is on disk when it returns.
  virtual Result<> sync(const TreePlace& volume) = 0;
  // So much of what was written to it is only in memory; more when nobody knows.
  virtual std::uint64_t unwritten_bytes(const TreePlace& volume) = 0;
  // Names, attributes, and volumes that `snapshot` made are on disk when it returns; what else was
  // written to files need not be.
  virtual Result<> commit(int fd) = 0;
  // Idempotent: a volume that is not there is destroyed.
  virtual Result<> destroy(int parent_fd, const std::string& name) = 0;
  // Read-only for everybody, and back.
  virtual Result<> seal(int parent_fd, const std::string& name) = 0;
  virtual Result<> unseal(int parent_fd, const std::string& name) = 0;
  virtual Result<> set_limit(int parent_fd, const std::string& name, std::uint64_t limit_bytes) = 0;
  virtual Result<UpperUsage> usage(int parent_fd, const std::string& name) = 0;
  // Removes what destroyed volumes left in the backend's books; says what.
  virtual Result<std::vector<std::string>> collect() = 0;
};

}  // namespace atl::layers
