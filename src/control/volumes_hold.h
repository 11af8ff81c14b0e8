// The right to change one volume. Private to control's Volumes.
#pragma once

#include "base/strings.h"
#include "control/volumes.h"

namespace atl::control {

inline std::unexpected<Error> no_such_volume(std::string_view id) {
  return fail(Code::kNotFound, concat("there is no volume \"", to_valid_utf8(id), "\""),
              "volume_not_found");
}

inline std::unexpected<Error> no_such_volume_snapshot(std::string_view id) {
  return fail(Code::kNotFound, concat("there is no snapshot \"", to_valid_utf8(id), "\""),
              "snapshot_not_found");
}

// Exclusive use of an entry, from hold() until destroyed.
class Volumes::Hold {
 public:
  // REQUIRES: not busy.
  explicit Hold(EntryPointer entry) : entry_(std::move(entry)) {
    CHECK(!entry_->busy);
    entry_->busy = true;
  }
  Hold(Hold&& other) noexcept = default;
  Hold& operator=(Hold&&) = delete;
  ~Hold() {
    if (entry_) {
      entry_->busy = false;
      entry_->released.set();
    }
  }

 private:
  EntryPointer entry_;
};

// A disk on its way: nobody takes it for a leftover.
class Volumes::Making {
 public:
  Making(Volumes& owner, std::string id, std::string team_id) : owner_(owner), id_(std::move(id)) {
    owner_.making_.emplace(id_, std::move(team_id));
  }
  ~Making() { owner_.making_.erase(id_); }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

 private:
  Volumes& owner_;
  std::string id_;
};

// The disk of a held volume is exchanged: who mounted it now would write to the old one.
class Volumes::Exchange {
 public:
  explicit Exchange(EntryPointer entry) : entry_(std::move(entry)) { entry_->exchanging = true; }
  ~Exchange() { entry_->exchanging = false; }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

 private:
  EntryPointer entry_;
};

// Snapshots of volumes on the node, and moments that last as long as a fork takes.
inline constexpr std::string_view kVolumeSnapshotPrefix = "vsnap-";
inline constexpr std::string_view kVolumeForkPrefix = "vfork-";

}  // namespace atl::control
