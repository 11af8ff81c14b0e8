// Whose the memory of preloaded images is, and which is made next.
//
// A sandbox that got an image shares its memory for as long as it likes, also when nobody else gets
// it any more. So an image counts until it is dropped and the last sandbox that got it is gone:
// else whoever changes a template again and again would have the memory of the host.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"

namespace atl::control {

class PreloadLedger {
 public:
  PreloadLedger(std::uint64_t most, std::uint64_t most_of_team)
      : most_(most), most_of_team_(most_of_team) {}

  // `team` is empty for what is everybody's.
  void add(const std::shared_ptr<const void>& image, std::uint64_t bytes, std::string team);
  void note_user(const void* image, std::string sandbox_id);
  // Forgets sandboxes that are gone, and images that nobody has.
  void sweep(const std::function<bool(const std::string& sandbox_id)>& exists);
  bool in_use(const void* image) const;
  bool has_room(std::string_view team, std::uint64_t bytes) const;
  bool team_has_room(std::string_view team, std::uint64_t bytes) const;

 private:
  struct Image {
    std::weak_ptr<const void> held;
    const void* address;
    std::uint64_t bytes;
    std::string team;
    std::set<std::string> users;
  };
  bool counts(const Image& image) const { return !image.held.expired() || !image.users.empty(); }

  std::uint64_t most_;
  std::uint64_t most_of_team_;
  std::vector<Image> images_;
};

// Whose turn it is: what is everybody's first, then one of each team after another.
template <typename T>
class PreloadQueue {
 public:
  void push(T what, std::string team, Instant not_before = {}) {
    waiting_.push_back({std::move(what), std::move(team), not_before});
  }
  // One whose moment has come. None: `next` is when to look again.
  std::optional<std::pair<T, std::string>> pop(Instant now, Instant& next) {
    auto best = waiting_.end();
    for (auto each = waiting_.begin(); each != waiting_.end(); ++each) {
      if (each->not_before > now) {
        next = std::min(next, each->not_before);
      } else if (best == waiting_.end() || rank(*each) < rank(*best)) {
        best = each;
      }
    }
    if (best == waiting_.end()) {
      return std::nullopt;
    }
    std::pair<T, std::string> out{std::move(best->what), std::move(best->team)};
    waiting_.erase(best);
    if (!out.second.empty()) {
      std::erase(served_, out.second);
      served_.push_back(out.second);
      if (served_.size() > kRemembered) {
        served_.pop_front();
      }
    }
    return out;
  }
  bool empty() const { return waiting_.empty(); }
  template <typename Predicate>
  void erase_if(Predicate predicate) {
    std::erase_if(waiting_, [&](const Waiting& each) { return predicate(each.what); });
  }

 private:
  static constexpr std::size_t kRemembered = 64;
  struct Waiting {
    T what;
    std::string team;
    Instant not_before;
  };
  // Lower comes first: who was served longest ago or never.
  std::size_t rank(const Waiting& each) const {
    if (each.team.empty()) {
      return 0;
    }
    for (std::size_t i = 0; i < served_.size(); ++i) {
      if (served_[i] == each.team) {
        return i + 2;
      }
    }
    return 1;
  }

  std::deque<Waiting> waiting_;
  std::deque<std::string> served_;  // teams, longest ago first
};

}  // namespace atl::control
