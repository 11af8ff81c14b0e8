// Names of volumes: what a team calls one of its volumes, and no other of them. One record each,
// all of them in memory. A volume without a name goes by its id; the name of a volume that is gone
// is free again. Loop thread only.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "control/store_access.h"
#include "control/volumes.h"

namespace atl::control {

inline constexpr std::size_t kMaxVolumeNameBytes = 128;

class VolumeNames {
 public:
  // All outlive this.
  VolumeNames(StoreAccess store, Volumes& volumes, const WallClock& clock)
      : store_(store), volumes_(volumes), clock_(clock) {}
  VolumeNames(const VolumeNames&) = delete;
  VolumeNames& operator=(const VolumeNames&) = delete;

  // Reads the records. REQUIRES: the volumes have started.
  Task<> start();

  // A new volume with a new name. kAlreadyExists when the name is taken.
  Task<VolumeView> create(std::string team_id, std::string name, VolumeCreate request);
  // The id of the volume with this name or id.
  std::optional<std::string> find(std::string_view team_id, std::string_view name) const;
  std::string name_of(std::string_view team_id, const std::string& volume_id) const;
  // The volume is gone: so is its name.
  Task<> forget(std::string team_id, std::string volume_id);

 private:
  using Key = std::pair<std::string, std::string>;  // team and name
  struct Entry {
    std::string volume_id;
    std::int64_t version = 1;
  };
  Task<VolumeView> create_now(std::string team_id, std::string name, VolumeCreate request);
  Task<> put(Key key, std::string volume_id);

  StoreAccess store_;
  Volumes& volumes_;
  const WallClock& clock_;
  std::map<Key, Entry> names_;
  std::set<Key> making_;
};

}  // namespace atl::control
