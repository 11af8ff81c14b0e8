#include "io/timer_queue.h"

#include <utility>

namespace atl::io {

void TimerQueue::put(std::size_t place, Entry entry) {
  slots_[entry.slot].place = static_cast<std::uint32_t>(place);
  heap_[place] = entry;
}

void TimerQueue::sift(std::size_t place, Entry entry) {
  while (place > 0 && entry < heap_[(place - 1) / 2]) {
    put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  for (;;) {
    std::size_t child = place * 2 + 1;
    if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) {
      ++child;
    }
    if (child >= heap_.size() || entry < heap_[child]) {
      break;
    }
    put(place, heap_[child]);
    place = child;
  }
  put(place, entry);
}

Loop::TimerId TimerQueue::start(Instant when, Loop::Callback callback) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  slot.callback = std::move(callback);
  slot.runs = true;
  ++slot.generation;
  heap_.emplace_back();
  sift(heap_.size() - 1, {when, next_number_++, index});
  return Loop::TimerId{slot.generation} << 32U | index;
}

Loop::Callback TimerQueue::take(std::size_t place) {
  const std::uint32_t index = heap_[place].slot;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (place < heap_.size()) {
    sift(place, last);
  }
  slots_[index].runs = false;
  free_slots_.push_back(index);
  return std::exchange(slots_[index].callback, nullptr);
}

void TimerQueue::cancel(Loop::TimerId id) {
  const std::size_t index = id & UINT32_MAX;
  if (index < slots_.size() && slots_[index].runs && slots_[index].generation == id >> 32U) {
    // Destroyed after the queue is whole again: what it holds may start or cancel timers.
    const auto callback = take(slots_[index].place);
  }
}

std::optional<Instant> TimerQueue::earliest() const {
  return heap_.empty() ? std::nullopt : std::optional{heap_.front().when};
}

void TimerQueue::fire(Instant now) {
  while (!heap_.empty() && heap_.front().when <= now) {
    auto callback = take(0);
    callback();
  }
}

}  // namespace atl::io
