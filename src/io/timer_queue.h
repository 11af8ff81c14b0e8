// The timers of one loop, the earliest first: a heap whose entries know their places, so that the
// common fate of a deadline (it is cancelled long before it is due) costs no allocation.
#pragma once

#include <optional>
#include <vector>

#include "base/loop.h"

namespace atl::io {

class TimerQueue {
 public:
  Loop::TimerId start(Instant when, Loop::Callback callback);
  void cancel(Loop::TimerId id);  // unknown ids are ignored
  std::optional<Instant> earliest() const;
  // Runs what is due at `now`, in order; what a callback adds is later than that.
  void fire(Instant now);

 private:
  struct Slot {
    Loop::Callback callback;
    std::uint32_t generation = 0;  // tells the timers that had this slot apart
    std::uint32_t place = 0;       // in the heap, while it runs
    bool runs = false;
  };
  struct Entry {
    Instant when;
    std::uint64_t number;  // equal instants: first come, first served
    std::uint32_t slot;
    bool operator<(const Entry& other) const {
      return when != other.when ? when < other.when : number < other.number;
    }
  };

  void put(std::size_t place, Entry entry);
  void sift(std::size_t place, Entry entry);  // to where it belongs, from an empty place
  Loop::Callback take(std::size_t place);

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<Entry> heap_;
  std::uint64_t next_number_ = 0;
};

}  // namespace atl::io
