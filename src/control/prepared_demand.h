// How many cells of one kind to keep ready: what was asked for lately decides.
//
// Two numbers that fade. `recent` is the claims of about the last second. `peak` is the most that
// `recent` was, and fades much slower: who came in numbers a moment ago comes again soon. So the
// number follows a rush at once and forgets it within minutes. Nothing here has a timer: a number
// is worked out when somebody asks for it, and falls_to() says when it is worth asking again.
#pragma once

#include <cstddef>
#include <span>

#include "base/loop.h"

namespace atl::control {

class Demand {
 public:
  void note(Instant now);  // one claim
  // Claims to expect in a second.
  double rate(Instant now) const;
  // When the rate will have come down to this, if nobody claims. REQUIRES: rate > 0.
  Instant falls_to(double rate, Instant now) const;
  Instant last_claim() const { return at_; }

 private:
  double recent_ = 0;
  double peak_ = 0;
  Instant at_;
};

// The claims that come while a cell is made, and in the moment that is to be bridged.
double expected_claims(double rate, Duration making);
// The other way round: the rate at which `target` is just not wanted any more.
double rate_below(std::size_t target, Duration making);

inline constexpr std::size_t kNoTeam = 0;

// What one kind wants, and what it gets. Kinds of one template stand side by side and share its
// most; of its minimum each has the part that is for it, and what others of the template have
// beyond theirs counts for it.
struct Wish {
  std::size_t group = 0;       // the template
  std::size_t team = kNoTeam;  // whose; kNoTeam: the platform's
  double expected = 0;
  std::size_t min_idle = 0;  // of this kind
  std::size_t max_idle = 0;  // of all of the template
  std::size_t target = 0;    // the answer
};

// Shares out `room` cells: first to minima of the platform, then to what is expected, then to
// minima of teams, each of which has half of the room at most then. Where it is not enough, who
// wants little gets all of it before who wants much gets more. REQUIRES: sorted by group.
void allot(std::span<Wish> wishes, std::size_t room);
std::size_t total_target(std::span<const Wish> wishes);

}  // namespace atl::control
