// The process the user started: it makes the ground, starts node and API, and keeps them running.
//
// It has one thread, parses nothing from outside and holds no state that matters: whatever happens
// to it, the next start finds sandboxes by the node's records. A child that dies is started again
// at once, then with growing pauses; one that keeps dying ends the server with an error, because a
// restart loop that nobody sees helps nobody. Processes that lose their parent (sandboxes of a node
// that was killed) come to the supervisor, which reaps them.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "daemon/child.h"
#include "daemon/layout.h"
#include "daemon/notify.h"
#include "daemon/options.h"

namespace atl::daemon {

class Supervisor {
 public:
  struct Parts {
    Layout layout;
    NodeOptions node;  // without ready_fd
    ApiOptions api;    // without ready_fd
    const ServiceNotifier& notifier;
    int signals = -1;  // signalfd of SIGCHLD, SIGTERM, SIGINT, SIGHUP
    // `atoll dev`: the words of the command that greets instead of us, without the address.
    std::vector<std::string> greeter = {};
  };
  explicit Supervisor(Parts parts);

  // Until a signal asks to stop or a child cannot be kept running.
  Result<> run();

 private:
  using Clock = std::chrono::steady_clock;

  struct Service {
    const char* name;
    pid_t pid = 0;  // 0: not running
    Fd ready;
    std::string said;
    bool was_ready = false;  // once, in any incarnation
    std::deque<Clock::time_point> deaths;
    std::optional<Clock::time_point> restart_at;
  };

  enum class Phase : std::uint8_t { kRunning, kStoppingApi, kStoppingNode, kDone };

  Result<> start_node();
  Result<> start_api();
  Result<> start(Service& service);
  void wait_for_something();
  void take_signals();
  void take_report(Service& service);
  void on_ready(Service& service);
  void announce();
  void reap();
  void on_death(Service& service, int wait_status);
  void act_on_deadlines();
  void ask_to_stop();
  void give_up(Error error);
  void stop_api();
  void stop_node();
  void end_stragglers();

  Parts parts_;
  Service node_{.name = "node"};
  Service api_{.name = "api"};
  Phase phase_ = Phase::kRunning;
  bool announced_ = false;
  int stop_requests_ = 0;
  Clock::time_point stop_deadline_{};
  Result<> outcome_;
};

}  // namespace atl::daemon
