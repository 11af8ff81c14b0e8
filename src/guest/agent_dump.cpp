// What the host asks for before a dump of the sandbox, and how it learns that it is done.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <utility>

#include "base/strings.h"
#include "guest/agent.h"
#include "guest/warm_owning.h"

namespace atl::guest {

// The name of the process says how often it was ready for a dump, and whether it prepares one now:
// nobody inside can change it, and the host can read it whatever else is closed
// (runtime/namespaces/criu_dump.cpp).
void Agent::tell_preparations() {
  constexpr unsigned kNames = 1000;  // a name has 15 bytes
  ::prctl(PR_SET_NAME,
          concat("atoll-guest", preparing_ ? "+" : ".", preparations_ % kNames).c_str());
}

// The host waits for what is to be done, and for the connections to end.
void Agent::prepare_dump() {
  may_be_a_copy_ = true;
  to_own_ = true;  // once more, if it was asked before: processes may have become others meanwhile
  if (preparing_) {
    processes_.end_revivals();  // the host had no patience left for them
    return;
  }
  preparing_ = true;
  tell_preparations();
  go_on_preparing();
}

// What is being made of an image is waited for: it maps the image and cannot be stopped yet.
void Agent::go_on_preparing() {
  if (!preparing_ || owner_ > 0 || processes_.reviving()) {
    return;
  }
  if (std::exchange(to_own_, false) && processes_.revived_any()) {
    owner_ = ::fork();
    if (owner_ == 0) {
      run_owning_worker();
    }
    if (owner_ > 0) {
      return;
    }
    owner_ = -1;  // the dump finds what is left, and is refused
  }
  close_connections();
  preparing_ = false;
  ++preparations_;
  tell_preparations();
}

// Whoever was connected sees an end and may connect again; processes stay, as after any end of a
// connection. File requests are cut short with their workers.
void Agent::close_connections() {
  for (Connection& connection : connections_) {
    connection.close();
  }
  for (const auto& workers : {file_workers_, watchers_, captures_, searches_}) {
    for (const pid_t pid : workers) {
      ::kill(pid, SIGKILL);
    }
  }
}

}  // namespace atl::guest
