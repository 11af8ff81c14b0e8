// OwnerIdentity: lends the calling thread the identity that is to own a cell's user namespace.
//
// The kernel charges what a namespace's processes hold (inotify instances, queued signals, message
// queues, locked memory) also to the namespace's owner, and the owner is whoever has the effective
// user id at the moment of clone3. Made by root, all cells and the host's root would share one
// budget, and one cell could use it up for everybody. So each cell is owned by its own first id.
//
// Only the effective id changes, only for this thread, only until the clone returns: a thread that
// lends its memory has it until the child execs, asleep in the kernel all the while. Real and saved
// id stay root's (nobody gains the right to signal or trace this thread), so does the id for file
// access (the child still has to reach the stage in a closed data directory), and so do the
// capabilities.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/error.h"

namespace atl::runtime::namespaces {

class OwnerIdentity {
 public:
  OwnerIdentity() = default;
  ~OwnerIdentity() { give_back(); }
  OwnerIdentity(const OwnerIdentity&) = delete;
  OwnerIdentity& operator=(const OwnerIdentity&) = delete;

  // REQUIRES: all signals are blocked, so that no handler runs with the lent identity.
  Result<> take(std::uint32_t uid);
  // Dies when the thread cannot have its own identity back: it must not go on as somebody else.
  void give_back();

 private:
  bool bits_changed_ = false;
  bool user_changed_ = false;
  uid_t own_user_ = 0;
  int own_bits_ = 0;
  int death_signal_ = 0;
  pid_t parent_ = 0;
};

}  // namespace atl::runtime::namespaces
