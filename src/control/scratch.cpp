#include "control/scratch.h"

#include <sys/statvfs.h>

#include <algorithm>

#include "base/strings.h"

namespace atl::control {

Scratch::Scratch(std::string directory)
    : look_([directory = std::move(directory)]() -> Result<Space> {
        struct statvfs status{};
        if (::statvfs(directory.c_str(), &status) != 0) {
          return fail_errno(concat("looking at ", directory));
        }
        return Space{status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize};
      }) {}

Result<> Scratch::check_reserve(std::uint64_t bytes) const {
  TRY(const Space space, look_());
  const std::uint64_t reserve_bytes =
      std::clamp(space.total_bytes / 20, kMinScratchReserveBytes, kMaxScratchReserveBytes);
  if (space.free_bytes < reserve_bytes || space.free_bytes - reserve_bytes < bytes) {
    return fail(Code::kResourceExhausted,
                concat("the server's disk has no room for this: ", space.free_bytes >> 20,
                       " MiB are left, of which ", reserve_bytes >> 20, " are kept free"),
                "no_space");
  }
  return {};
}

Result<> Scratch::check(const std::string& team_id, std::uint64_t bytes) const {
  const auto of_team = by_team_.find(team_id);
  const std::uint64_t team_bytes = of_team == by_team_.end() ? 0 : of_team->second;
  if (bytes > kMaxTeamScratchBytes || team_bytes > kMaxTeamScratchBytes - bytes) {
    return fail(
        Code::kResourceExhausted,
        concat("uploads and exports of one team take at most ",
               format_quantity(kMaxTeamScratchBytes), " at a time; try again when others are done"),
        "no_space");
  }
  if (held_ > kMaxScratchBytes - bytes) {
    return fail(Code::kResourceExhausted,
                "uploads and exports under way take all the room there is for them; try again "
                "later",
                "no_space");
  }
  return check_reserve(bytes);
}

Scratch::Lease::~Lease() {
  owner_.held_ -= held_;
  const auto of_team = owner_.by_team_.find(team_id_);
  if (of_team != owner_.by_team_.end() && (of_team->second -= held_) == 0) {
    owner_.by_team_.erase(of_team);
  }
}

Result<> Scratch::Lease::hold(std::uint64_t bytes) {
  if (bytes <= held_) {
    return {};
  }
  const std::uint64_t more = bytes - held_;
  TRY_DO(owner_.check(team_id_, more));
  owner_.held_ += more;
  owner_.by_team_[team_id_] += more;
  held_ = bytes;
  return {};
}

Task<> Scratch::watch(CancelState& stop, Result<>& room) const {
  for (;;) {
    CO_TRY_DO(co_await sleep_for(kScratchLookInterval));
    room = check_reserve(0);
    if (!room) {
      stop.cancel();
      co_return ok();
    }
  }
}

}  // namespace atl::control
