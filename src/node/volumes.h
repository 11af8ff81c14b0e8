// Volumes on the pool: the directories that sandboxes share.
//
// A volume is an upper without a cell, named by its prefix: it has a quota, snapshots and an
// account like every upper, and what cells see of it is its "upper" directory. Who may have it
// mounted while it changes is control's to decide. Thread-safe for different volumes.
#pragma once

#include <string>
#include <vector>

#include "layers/room.h"
#include "node/protocol.h"

namespace atl::node {

class Volumes {
 public:
  explicit Volumes(layers::Pool& pool) : pool_(pool) {}

  // These are durable when they return.
  Result<> create(const VolumeRequest& request);
  Result<> snapshot(const VolumeRequest& request);
  Result<> restore(const VolumeRequest& request);  // mounts of it keep what it was

  Result<> remove(const std::string& volume);  // idempotent
  Result<Usage> usage(const std::string& volume);
  Result<std::vector<std::string>> list();
  // What a cell mounts; kNotFound when there is no such volume.
  Result<std::string> directory(const std::string& volume);

 private:
  Result<> check_space();

  layers::Pool& pool_;
};

}  // namespace atl::node
