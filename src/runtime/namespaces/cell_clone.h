// The moment a cell's first process comes to be.
//
// A copy of the node's memory for a process that is to be another program at once costs more than
// its namespaces: tables of a large process are copied, pages copied when touched, all taken down
// by exec. So the child borrows the node's memory instead, as vfork's does: on a stack of its own,
// with the thread-local storage of a thread that stands still meanwhile (CLONE_VM | CLONE_VFORK).
// That thread is made for it, because the parent has work to do in the meantime. A sleeping parent
// is also what tells the kernel not to count the borrowed memory as the child's: a cell that runs
// out of memory while it is built must not have the node killed.
//
// A child that is to run criu has its own copy, because it changes settings of its memory.
#pragma once

#include <cstdint>
#include <thread>

#include "base/error.h"
#include "base/fd.h"
#include "runtime/namespaces/cell_plan.h"
#include "runtime/namespaces/cgroup_tree.h"

namespace atl::runtime::namespaces {

// A child that is killed unless the cell is complete.
class Child {
 public:
  Child(int pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  ~Child();
  Child(Child&&) = default;
  Child& operator=(Child&&) = delete;

  int pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  Fd keep() { return std::move(pidfd_); }

 private:
  int pid_;
  Fd pidfd_;
};

struct BegunCell {
  Child child;
  Fd listener;  // of the guest, without a name yet
};

class CellClone {
 public:
  // Everything must outlive this, and `child_channel`, the child's end, is closed here as soon as
  // it may be: the end of file on the other one says that the child executes its program, or is
  // dead.
  CellClone(const CellPlan& plan, const CgroupPlaces& places, std::uint32_t owner,
            Fd child_channel);
  // REQUIRES: the child executes its program, or is dead.
  ~CellClone() = default;
  CellClone(const CellClone&) = delete;
  CellClone& operator=(const CellClone&) = delete;

  // Returns when the child has its own table of descriptors. Called once.
  Result<BegunCell> begin(int channel, int timeout_ms);

 private:
  Result<> clone_with_copy();
  void clone_with_loan();
  Result<BegunCell> begin_with_copy(int channel, int timeout_ms);
  Result<BegunCell> begin_with_loan(int channel, int timeout_ms);

  const CellPlan& plan_;
  const CgroupPlaces& places_;
  const std::uint32_t owner_;
  Fd child_channel_;
  int pid_ = 0;  // the kernel writes both before the child's first instruction
  int pidfd_ = -1;
  Result<> cloned_;
  std::jthread sleeper_;
};

}  // namespace atl::runtime::namespaces
