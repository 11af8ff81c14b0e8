#include "control/preloaded_ledger.h"

#include <algorithm>

namespace atl::control {

void PreloadLedger::add(const std::shared_ptr<const void>& image, std::uint64_t bytes,
                        std::string team) {
  images_.push_back({image, image.get(), bytes, std::move(team), {}});
}

void PreloadLedger::note_user(const void* image, std::string sandbox_id) {
  for (Image& each : images_) {
    // Another may have the address of one that is gone.
    if (each.address == image && !each.held.expired()) {
      each.users.insert(std::move(sandbox_id));
      return;
    }
  }
}

void PreloadLedger::sweep(const std::function<bool(const std::string&)>& exists) {
  for (Image& image : images_) {
    std::erase_if(image.users, [&](const std::string& id) { return !exists(id); });
  }
  std::erase_if(images_, [this](const Image& image) { return !counts(image); });
}

bool PreloadLedger::in_use(const void* image) const {
  return std::ranges::any_of(images_, [&](const Image& each) {
    return each.address == image && !each.held.expired() && !each.users.empty();
  });
}

bool PreloadLedger::team_has_room(std::string_view team, std::uint64_t bytes) const {
  for (const Image& image : images_) {
    bytes += image.team == team && counts(image) ? image.bytes : 0;
  }
  return team.empty() || bytes <= most_of_team_;
}

bool PreloadLedger::has_room(std::string_view team, std::uint64_t bytes) const {
  if (!team_has_room(team, bytes)) {
    return false;
  }
  for (const Image& image : images_) {
    bytes += counts(image) ? image.bytes : 0;
  }
  return bytes <= most_;
}

}  // namespace atl::control
