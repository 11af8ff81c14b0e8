// Which sandbox may have which volume, and what the children of a fork get.
#include <algorithm>
#include <memory>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/volumes_hold.h"

namespace atl::control {

Result<> Volumes::admit(const std::vector<Mount>& mounts) const {
  for (const Mount& mount : mounts) {
    const auto found = entries_.find(mount.volume_id);
    if (found != entries_.end() && found->second->exchanging) {
      return fail(Code::kAborted,
                  concat("volume ", mount.volume_id, " is being restored; try again later"));
    }
  }
  return {};
}

Result<std::vector<Mount>> Volumes::bind(const std::string& team_id, std::vector<Mount> wanted,
                                         std::size_t count) {
  TRY_DO(admit(wanted));
  for (auto mount = wanted.begin(); mount != wanted.end(); ++mount) {
    TRY(const auto entry, find_local(team_id, mount->volume_id));
    const AccessMode mode = entry->row.access_mode;
    mount->read_only = mount->read_only || mode == AccessMode::kManyReaders;
    const bool twice = std::any_of(wanted.begin(), mount, [&](const Mount& other) {
      return other.volume_id == mount->volume_id;
    });
    if (mode != AccessMode::kOne) {
      continue;
    }
    if (count > 1 || twice) {
      return fail(
          Code::kInvalidArgument,
          concat("volume ", mount->volume_id,
                 " is for one sandbox at a time (RWO); it cannot be mounted more than once"));
    }
    if (const auto users = sandboxes_.mounted_in(mount->volume_id); !users.empty()) {
      return fail(Code::kFailedPrecondition,
                  concat("volume ", mount->volume_id, " is for one sandbox at a time (RWO), and ",
                         users.front(), " has it"),
                  "volume_mounted");
    }
  }
  return wanted;
}

// What the volumes of a sandbox were when it was forked: a snapshot of each that only one may have,
// for all children, which goes when they have theirs.
struct Volumes::Moments {
  std::map<std::string, std::string> snapshots;  // by volume
  std::vector<std::unique_ptr<Making>> making;
  std::vector<Hold> holds;
};

Task<MountLists> Volumes::fork(std::string team_id, std::vector<Mount> mounts, std::size_t count,
                               const AtMoment& at_moment) {
  return shielded(fork_now(std::move(team_id), std::move(mounts), count, at_moment));
}

Task<MountLists> Volumes::fork_now(std::string team_id, std::vector<Mount> mounts,
                                   std::size_t count, const AtMoment& at_moment) {
  Moments moments;
  // Before the sandbox: whoever has both holds the volume first.
  CO_TRY_DO(co_await hold_sources(team_id, mounts, moments));
  const auto take = [this, &moments] { return take_moments(moments); };
  Result<> done = co_await at_moment(take);
  moments.holds.clear();
  ATOLL_FAULT_POINT("control.volume.moments_taken");
  MountLists lists(count);
  if (done) {
    done = co_await make_children(team_id, mounts, moments, lists);
  }
  ATOLL_FAULT_POINT("control.volume.children_made");
  for (const auto& [volume, snapshot] : moments.snapshots) {
    (void)co_await remove_disk_snapshot(snapshot);
  }
  if (!done) {
    (void)co_await settle(std::move(lists), false);
    co_return fail(std::move(done).error());
  }
  co_return std::move(lists);
}

Task<> Volumes::hold_sources(const std::string& team_id, const std::vector<Mount>& mounts,
                             Moments& moments) {
  for (const Mount& mount : mounts) {
    const auto source = find_local(team_id, mount.volume_id);
    if (!source || (*source)->row.access_mode != AccessMode::kOne) {
      continue;
    }
    CO_TRY(auto held, co_await with_deadline(kVolumeTimeout, hold(*source)));
    moments.holds.push_back(std::move(held));
    const std::string moment = concat(kVolumeForkPrefix, random_label(16));
    moments.making.push_back(std::make_unique<Making>(*this, moment, team_id));
    moments.snapshots.emplace(mount.volume_id, moment);
  }
  co_return ok();
}

Task<> Volumes::take_moments(const Moments& moments) {
  for (const auto& [volume, snapshot] : moments.snapshots) {
    auto taken = co_await with_deadline(
        kVolumeTimeout, node_.snapshot_volume({.volume = volume, .snapshot = snapshot}));
    if (!taken) {
      co_return fail(std::move(taken).error().note(concat("forking volume ", volume)));
    }
  }
  co_return ok();
}

Task<> Volumes::make_children(const std::string& team_id, const std::vector<Mount>& mounts,
                              const Moments& moments, MountLists& lists) {
  for (auto& list : lists) {
    for (Mount mount : mounts) {
      const auto source = find_local(team_id, mount.volume_id);
      if (!source) {
        continue;  // it was deleted by force a moment ago: the child has none either
      }
      if (const auto moment = moments.snapshots.find(mount.volume_id);
          moment != moments.snapshots.end()) {
        Volume row = (*source)->row;
        row.ready = false;
        CO_TRY(const auto made, co_await make_from(std::move(row), moment->second));
        mount.volume_id = made->row.id;
      }
      list.push_back(std::move(mount));
    }
  }
  co_return ok();
}

Task<> Volumes::settle(MountLists forked, bool keep) {
  for (const auto& list : forked) {
    for (const Mount& mount : list) {
      const auto found = entries_.find(mount.volume_id);
      if (found == entries_.end() || found->second->row.ready) {
        continue;  // shared, not made
      }
      if (auto settled = co_await shielded(settle_one(mount.volume_id, keep)); !settled) {
        LOG_WARN("a forked volume is not settled yet", {"volume", mount.volume_id},
                 {"error", settled.error()});
        unsettled_.insert_or_assign(mount.volume_id, keep);
        deadlines_changed_.set();
      }
    }
  }
  co_return ok();
}

Task<> Volumes::settle_late() {
  for (const auto& [id, keep] : std::map{unsettled_}) {
    auto settled = co_await shielded(settle_one(id, keep));
    if (settled || settled.error().code == Code::kNotFound) {
      unsettled_.erase(id);
    }
  }
  co_return ok();
}

Task<> Volumes::settle_one(std::string volume_id, bool keep) {
  const auto found = entries_.find(volume_id);
  if (found == entries_.end()) {
    co_return no_such_volume(volume_id);
  }
  const EntryPointer entry = found->second;
  CO_TRY(const auto held, co_await with_deadline(kVolumeTimeout, hold(entry)));
  if (!keep) {
    entry->gone = true;
    auto removed = co_await remove_held(entry);
    entry->gone = removed.has_value();
    co_return std::move(removed);
  }
  Volume row = entry->row;
  row.ready = true;
  ATOLL_FAULT_POINT("control.volume.unsettled");
  CO_TRY_DO(co_await put(row));
  entry->row = std::move(row);
  co_return ok();
}

}  // namespace atl::control
