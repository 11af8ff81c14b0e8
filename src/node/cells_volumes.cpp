// Volumes that get another disk, and cells that have them.
//
// Control lets nobody mount a volume whose disk is exchanged. What is written to a disk that was
// exchanged is lost without a word, so the node, which knows what really runs, refuses it too.
#include <algorithm>

#include "base/strings.h"
#include "node/cells.h"
#include "node/volumes.h"

namespace atl::node {
namespace {

bool names(const std::vector<std::string>& volumes, const std::string& volume) {
  return std::ranges::find(volumes, volume) != volumes.end();
}

}  // namespace

Result<> Cells::begin_mounting(const std::vector<Mount>& mounts) {
  const std::lock_guard guard{mutex_};
  for (const Mount& mount : mounts) {
    if (exchanging_.contains(mount.volume)) {
      return fail(Code::kAborted, concat("volume ", mount.volume, " is being restored"));
    }
  }
  for (const Mount& mount : mounts) {
    mounting_.insert(mount.volume);
  }
  return {};
}

void Cells::end_mounting(const std::vector<Mount>& mounts) {
  const std::lock_guard guard{mutex_};
  for (const Mount& mount : mounts) {
    mounting_.erase(mounting_.find(mount.volume));
  }
}

Result<> Cells::begin_exchange(const std::string& volume) {
  const std::lock_guard guard{mutex_};
  const auto user = std::ranges::find_if(table_, [&](const auto& item) {
    const Entry& entry = item.second;
    return entry.ticket != 0 &&
           (names(entry.stored.volumes, volume) || names(entry.stored.read_volumes, volume));
  });
  if (user != table_.end() || mounting_.contains(volume)) {
    return fail(Code::kFailedPrecondition,
                concat("volume ", volume, " is mounted in ",
                       user != table_.end() ? user->first : "a cell that is being made"),
                "volume_mounted");
  }
  if (!exchanging_.insert(volume).second) {
    return fail(Code::kAborted, concat("volume ", volume, " is being restored"));
  }
  return {};
}

Result<> Cells::restore_volume(const VolumeRequest& request) {
  TRY_DO(begin_exchange(request.volume));
  auto restored = Volumes{parts_.pool, locks_}.restore(request);
  const std::lock_guard guard{mutex_};
  exchanging_.erase(request.volume);
  return restored;
}

}  // namespace atl::node
