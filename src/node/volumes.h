// Volumes on the pool: the directories that sandboxes share.
//
// A volume is an upper without a cell, named by its prefix: it has a quota, snapshots and an
// account like every upper, and what cells see of it is its "upper" directory. Who may have it
// mounted while it changes is control's to decide. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "layers/room.h"
#include "node/id_locks.h"
#include "node/protocol.h"

namespace atl::node {

class Volumes {
 public:
  // The locks are those of all who use the pool.
  Volumes(layers::Pool& pool, IdLocks& locks) : pool_(pool), locks_(locks) {}

  // These are durable when they return.
  Result<> create(const VolumeRequest& request);
  Result<> snapshot(const VolumeRequest& request);
  Result<> restore(const VolumeRequest& request);  // mounts of it keep what it was

  Result<> remove(const std::string& volume);  // idempotent
  Result<Usage> usage(const std::string& volume);
  Result<std::vector<std::string>> list();

 private:
  Result<> check_space();

  layers::Pool& pool_;
  IdLocks& locks_;
};

// What a cell mounts; kNotFound when there is no such volume.
Result<std::string> volume_directory(layers::Pool& pool, const std::string& volume);

}  // namespace atl::node
