// Volumes: directories that live on their own, and that sandboxes mount.
//
//   create     disk -> row (durable) -> acknowledged; a disk without a row is removed at the start
//   delete     row -> disk; what stays of the disk is removed at the start
//   snapshot   like those of sandboxes
//   fork       a snapshot that lives as long as the new volume takes to be made
//   restore    the disk is exchanged, wholly or not at all, while nobody has it mounted
//
// RWO is for one sandbox at a time, ROX for any number that only read, RWX for any number. A volume
// for the child of a fork is not `ready` until that child is recorded: whoever is killed in between
// leaves it to the next start, which keeps it if a sandbox has it and removes it otherwise. One
// operation at a time per volume; a transition, once begun, is not cancelled with its caller. Other
// backends than our own disk are asked for their files and have no snapshots, forks and mounts.
// Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/files.h"
#include "control/sandboxes.h"
#include "control/volume_cells.h"
#include "secrets/plaintext.h"

namespace atl::control {

using store::AccessMode;
using store::Volume;
using store::VolumeSnapshot;

inline constexpr std::string_view kLocalBackend = "s0fs";

struct VolumeCreate {
  std::string user_id;
  std::string snapshot_id;  // of a volume; empty: an empty volume
  AccessMode access_mode = AccessMode::kOne;
  std::uint32_t posix_uid = 0;
  std::uint32_t posix_gid = 0;
  std::optional<std::uint64_t> disk_bytes;
  std::string backend{kLocalBackend};
  std::string settings = "{}";  // of another backend
  secrets::Plaintext secret;    // what it needs and nobody may read again
};

struct VolumeFork {
  std::string user_id;
  std::optional<AccessMode> access_mode;
  std::optional<std::uint32_t> posix_uid;
  std::optional<std::uint32_t> posix_gid;
};

struct VolumeSnapshotCreate {
  std::string name;
  std::string description;
  std::optional<UnixMillis> expires_at;
};

struct VolumeView {
  Volume volume;
  std::optional<std::uint64_t> used_bytes;
  UnixMillis observed_at = 0;
  std::vector<std::string> sandboxes;  // that have it
};

struct VolumeUsage {
  std::uint64_t bytes = 0;
  UnixMillis observed_at = 0;
};

// Keeps the files of volumes somewhere else.
class VolumeBackend {
 public:
  virtual ~VolumeBackend() = default;
  // Before the row of a new volume is written: the settings can be used, and are made what the row
  // shall keep, with the secret sealed in it. The volume outlives the task.
  virtual Task<> admit(Volume& volume, secrets::Plaintext secret) = 0;
  virtual Task<std::unique_ptr<Files>> open(const Volume& volume) = 0;
  // At the start: true when the row must be written again, because its secret is sealed anew.
  virtual Result<bool> renew(Volume& volume) = 0;
  // What was seen last; asking may make it look again.
  virtual std::optional<VolumeUsage> usage(const Volume& volume) = 0;
  // The volume is gone; what it kept stays where it is.
  virtual void forget(const std::string& volume_id) = 0;
};

class Volumes final : public MountKeeper, public FilePlaces {
 public:
  Volumes(StoreAccess store, node::Node& node, Sandboxes& sandboxes, VolumeCells& cells,
          const WallClock& clock);
  ~Volumes() override;
  Volumes(const Volumes&) = delete;
  Volumes& operator=(const Volumes&) = delete;

  // By its name in rows. It must outlive this. REQUIRES: before start().
  void add_backend(std::string name, VolumeBackend& backend) {
    backends_.insert_or_assign(std::move(name), &backend);
  }

  // Reads the rows and removes what an earlier process left half done. REQUIRES: before anything
  // else, after the sandboxes have started.
  Task<> start();
  // Removes snapshots whose time is over, and finishes what could not be finished when it was
  // asked for, until cancelled.
  Task<> run();

  Task<VolumeView> create(std::string team_id, VolumeCreate request);
  Task<std::vector<VolumeView>> list(std::string team_id);  // oldest first
  Task<VolumeView> get(std::string team_id, std::string id);
  bool exists(std::string_view team_id, std::string_view id) const {
    return find(team_id, id).has_value();
  }
  // Idempotent. One that is mounted only with `force`: its sandboxes lose it.
  Task<> remove(std::string team_id, std::string id, bool force);
  Task<VolumeView> fork(std::string team_id, std::string id, VolumeFork request);

  Task<VolumeSnapshot> snapshot(std::string team_id, std::string id, VolumeSnapshotCreate request);
  Result<std::vector<VolumeSnapshot>> list_snapshots(std::string_view team_id,
                                                     std::string_view id) const;
  Result<VolumeSnapshot> get_snapshot(std::string_view team_id, std::string_view id,
                                      std::string_view snapshot_id) const;
  Task<> remove_snapshot(std::string team_id, std::string id,
                         std::string snapshot_id);  // idempotent
  // While a sandbox has a cell with it only with `force`: then that one starts again.
  Task<> restore(std::string team_id, std::string id, std::string snapshot_id, bool force);

  // MountKeeper.
  Result<> admit(const std::vector<Mount>& mounts) const override;
  Result<std::vector<Mount>> bind(const std::string& team_id, std::vector<Mount> wanted,
                                  std::size_t count) override;
  Task<MountLists> fork(std::string team_id, std::vector<Mount> mounts, std::size_t count,
                        const AtMoment& at_moment) override;
  Task<> settle(MountLists forked, bool keep) override;

  // FilePlaces.
  FileDefaults defaults(const PlaceRef& ref) const override;
  Task<std::unique_ptr<Files>> open(PlaceRef ref) override;
  Result<std::uint64_t> room_bytes(const PlaceRef& ref) const override;

 private:
  struct Entry {
    Volume row;
    bool busy = false;
    bool exchanging = false;  // it becomes what it was: nobody may begin to mount it
    bool gone = false;        // its row is removed, or about to be: nobody may begin to use it
    Event released;
  };
  using EntryPointer = std::shared_ptr<Entry>;
  class Hold;

  Result<EntryPointer> find(std::string_view team_id, std::string_view id) const;
  Result<EntryPointer> find_local(std::string_view team_id, std::string_view id) const;
  Task<Hold> hold(EntryPointer entry);
  Task<VolumeView> view(EntryPointer entry);
  Result<> check_quota(std::string_view team_id) const;
  std::size_t count_making(std::string_view prefix, std::string_view team_id) const;
  Task<VolumeView> create_now(std::string team_id, VolumeCreate request);
  Task<EntryPointer> make(Volume row, std::string from_snapshot);
  Task<EntryPointer> fork_held(EntryPointer source, Volume row);
  Task<EntryPointer> make_from(Volume source, std::string moment);
  Task<VolumeView> fork_now(std::string team_id, std::string id, VolumeFork request);
  Task<> remove_now(std::string team_id, std::string id, bool force);
  Task<> remove_held(EntryPointer entry);
  Task<VolumeSnapshot> snapshot_now(std::string team_id, std::string id,
                                    VolumeSnapshotCreate request);
  Task<> remove_snapshot_now(std::string id);
  Task<> restore_now(std::string team_id, std::string id, std::string snapshot_id, bool force);
  Task<> exchange_disk(Volume row, std::string snapshot_id);
  Task<> settle_late();
  Task<MountLists> fork_now(std::string team_id, std::vector<Mount> mounts, std::size_t count,
                            const AtMoment& at_moment);
  struct Moments;
  Task<> hold_sources(const std::string& team_id, const std::vector<Mount>& mounts,
                      Moments& moments);
  Task<> take_moments(const Moments& moments);
  Task<> make_children(const std::string& team_id, const std::vector<Mount>& mounts,
                       const Moments& moments, MountLists& lists);
  Task<> settle_one(std::string volume_id, bool keep);
  Task<> put(Volume row);
  class Making;
  class Exchange;
  Task<> finish_unready();
  Task<> renew_secrets();
  void add_usage(VolumeView& view);
  Task<> remove_disks_without_rows();
  Task<> remove_disk(std::string id);
  Task<> remove_disk_snapshot(std::string id);
  Task<> expire_due();
  void note_leftover(std::string_view what, const std::string& id, const Error& error);

  StoreAccess store_;
  node::Node& node_;
  Sandboxes& sandboxes_;
  VolumeCells& cells_;
  const WallClock& clock_;
  std::map<std::string, VolumeBackend*, std::less<>> backends_;
  std::map<std::string, EntryPointer, std::less<>> entries_;
  std::map<std::string, VolumeSnapshot, std::less<>> snapshots_;
  std::uint64_t pool_bytes_ = 0;               // no volume can be larger; 0: not known
  std::map<std::string, std::string> making_;  // disks that have no row yet, and their teams
  std::map<std::string, bool> unsettled_;      // volumes of forks, and whether they stay
  bool leftovers_ = false;                     // the node may have disks that nobody needs
  Event deadlines_changed_;
};

}  // namespace atl::control
