// One sandbox in memory, and the right to change it. Private to control's Sandboxes.
#pragma once

#include "control/sandboxes.h"

namespace atl::control {

struct Sandboxes::Entry {
  Sandbox row;
  std::string guest_socket;
  bool busy = false;        // somebody holds it
  bool gone = false;        // its row is removed: whoever waited for it must give up
  bool restarting = false;  // `running` in the store, but there is no cell at this moment
  Event released;
  std::deque<UnixMillis> restarts;  // of the last kRestartWindowMs
};

// Exclusive use of an entry, from hold() until destroyed.
class Sandboxes::Hold {
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
  const EntryPointer& entry() const { return entry_; }

 private:
  EntryPointer entry_;
};

}  // namespace atl::control
