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
// A child that is to run criu has its own copy, because it changes settings of its memory. So has
// every child where the few instructions that start one on another stack are not written: on
// anything but x86-64.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/fd.h"
#include "runtime/namespaces/planned_cell.h"

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
  enum class Memory : std::uint8_t { kLent, kCopied };

  // `child_channel`, the child's end, is closed here as soon as it may be: the end of file on the
  // other one says that the child executes its program, or is dead. Memory is lent only where it
  // can be.
  CellClone(std::shared_ptr<const PlannedCell> cell, Fd child_channel,
            Memory memory = Memory::kLent);
  // When the child executes its program, or is dead. One that does neither is left alone with what
  // it borrowed, after a while and with a word in the log.
  ~CellClone();
  CellClone(const CellClone&) = delete;
  CellClone& operator=(const CellClone&) = delete;

  // Returns when the child has its own table of descriptors. On failure `channel` is of no more
  // use. Called once.
  Result<BegunCell> begin(int channel, int timeout_ms);

 private:
  struct Loan;

  Result<BegunCell> begin_with_copy(int channel, int timeout_ms);
  Result<BegunCell> begin_with_loan(int channel, int timeout_ms);
  Result<> lend();
  Result<> end_loan();

  std::shared_ptr<const PlannedCell> cell_;
  Fd child_channel_;
  bool lends_;
  std::shared_ptr<Loan> loan_;    // the thread's too
  std::future<Result<>> cloned_;  // there when the thread is back
  std::thread sleeper_;
};

}  // namespace atl::runtime::namespaces
