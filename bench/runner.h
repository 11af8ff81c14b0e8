// One contestant at work: its workers, their connections or programs, and what was measured.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "connection.h"
#include "plan.h"

namespace atl::bench {

struct Outcome {
  std::vector<double> microseconds;        // of the timed steps of each operation, in order
  std::vector<double> after_microseconds;  // of the steps after
  std::vector<double> turn_microseconds;   // of each turn as a whole
  std::vector<std::string> collected;
  std::size_t failures = 0;
  std::string first_failure;
};

class Runner {
 public:
  Runner(const Contestant& contestant, std::size_t workers, std::size_t silence_ms);
  ~Runner();
  Runner(Runner&&) = delete;

  Result<> setup();
  // One turn: every worker goes on until the operations, the items or the seconds are used up.
  Result<> turn(double seconds, bool counts);
  Result<> teardown();
  const Contestant& contestant() const { return contestant_; }
  Outcome& outcome() { return outcome_; }

 private:
  struct Worker;
  struct Floor;

  Result<> run_steps(Worker& worker, const std::vector<Step>& steps);
  Result<> operate(Worker& worker, const std::string& item, bool counts);
  void work(Worker& worker, double seconds, bool counts);
  Result<> ask_floor(bool counts);
  void record_failure(const Error& error);

  const Contestant& contestant_;
  const std::size_t silence_ms_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Floor> floor_;
  std::atomic<std::size_t> next_{0};
  std::size_t last_ = 0;
  std::atomic<std::size_t> next_item_{0};
  std::atomic<bool> gave_up_{false};
  std::mutex mutex_;
  Outcome outcome_;
};

}  // namespace atl::bench
