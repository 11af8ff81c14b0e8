// The process table: requests about processes, the timer, and reaping.
//
// Processes are found by the caller's id, listed in order of start, and swept when nobody needs
// them any more. One timer serves all deadlines.
#pragma once

#include <sys/resource.h>

#include <list>
#include <memory>
#include <string_view>
#include <vector>

#include "guest/connection.h"
#include "guest/journal.h"
#include "guest/loop.h"
#include "guest/process.h"
#include "guest/socket_search.h"
#include "guest/warm_revival.h"
#include "guest/warm_worker.h"

namespace atl::guest {

class Processes final : private Process::Owner {
 public:
  Processes(Loop& loop, const rlimit& file_limit);
  ~Processes() override;
  Result<> start();

  // Requests; each answers on the connection.
  void spawn(Connection& connection, std::string_view payload);
  void revive(Connection& connection, std::string_view payload);
  // Some process may share memory with an image.
  bool revived_any() const { return revived_any_; }
  // Some are still being made.
  bool reviving() const { return !revivals_.empty(); }
  void end_revivals();
  void attach(Connection& connection, std::string_view payload);
  void list(Connection& connection);  // also when more room became free
  void get(Connection& connection, std::string_view payload);
  void signal(Connection& connection, std::string_view payload);
  void remove(Connection& connection, std::string_view payload);

  // For the worker that captures a copy of a process.
  Result<CaptureOrder> order_capture(std::string_view payload);

  // A traced child of the agent stopped.
  void on_stopped(pid_t pid, int stop);
  // A child of the agent was reaped. Returns false when it is not one of these processes.
  bool on_reaped(pid_t pid, int wait_status);
  // After every batch of reaped children.
  void check_removals();
  // Erases what nobody needs any more. Not during event delivery.
  void sweep();
  std::size_t count() const;
  // Whoever leads a session in the sandbox, with its id.
  std::vector<Leader> leaders() const;

 private:
  struct OrphanPipe {
    OrphanPipe(Loop& loop, Fd pipe) : fd(std::move(pipe)), watch(loop) {}
    Fd fd;
    Watch watch;
    bool ended = false;
  };

  void on_deadline_changed() override;
  void on_process_settled() override { dirty_ = true; }
  void adopt_pipe(Fd pipe) override;
  void on_timer();
  Result<> try_spawn(Connection& connection, std::string_view payload);
  Result<> try_revive(Connection& connection, std::string_view payload);
  Result<> make_room(const std::string& process_id);
  Result<> add(Connection& connection, Spawned spawned, const SpawnRequest& request);
  bool evict_oldest();
  Result<Process*> find(std::string_view id);

  Loop& loop_;
  const rlimit file_limit_;
  JournalBudget budget_;
  std::vector<std::unique_ptr<Process>> processes_;  // in order of start
  std::list<OrphanPipe> orphans_;
  std::list<Revival> revivals_;
  bool revived_any_ = false;
  std::uint64_t next_serial_ = 1;
  Fd timer_;
  std::int64_t armed_at_ms_ = 0;  // 0: not
  Watch timer_watch_;
  bool dirty_ = false;
};

}  // namespace atl::guest
