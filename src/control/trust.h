// Sandboxes whose TLS is opened somewhere trust their own authority: its certificate is installed
// in each before anybody is told that it runs, or that its rules have changed. A sandbox without
// such rules is not touched and costs nothing.
//
// What an earlier process has left, and what changes for many at once, is told by run() in the
// background: a sandbox that is slow keeps none of the others waiting. A failure is logged and
// tried again after a growing pause: programs inside refuse meanwhile what the proxy shows them,
// which is safe. One that stands still is told when it moves again. Loop thread only.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "control/sandboxes.h"
#include "egress/boundary.h"
#include "io/reactor.h"

namespace atl::control {

class Trust {
 public:
  struct Parts {
    io::Reactor& reactor;
    Sandboxes& sandboxes;
    egress::Authorities& authorities;
    std::function<std::string(const std::string& id)> guest_socket;
    Duration first_pause = std::chrono::seconds{5};  // after a failure
  };
  explicit Trust(Parts parts) : parts_(std::move(parts)) {}
  Trust(const Trust&) = delete;
  Trust& operator=(const Trust&) = delete;

  // The sandbox has a new cell and these rules.
  Task<> greet(Sandbox sandbox, egress::RulesPtr rules);
  // It has other rules. One that stands still gets what it needs when it moves again.
  Task<> change(Sandbox sandbox, egress::RulesPtr rules);
  // The same for one that nobody waits for, or whose cell an earlier process has made: run() tells
  // it.
  void plan(const Sandbox& sandbox, const egress::RulesPtr& rules);
  // It moves again.
  Task<> wake(Sandbox sandbox);
  void forget(std::string_view sandbox_id);
  // Its authority is another one now: it is told as soon as run() comes to it.
  void renew(const std::string& sandbox_id);
  // Until cancelled.
  Task<> run();

 private:
  enum class Has : std::uint8_t { kNothing, kSomething, kCurrent };
  struct Known {
    std::string team_id;
    bool wanted = false;
    Has has = Has::kNothing;  // kSomething: of another authority, or nobody knows
    bool renewed = false;     // while it was told
    bool busy = false;        // somebody tells it
    bool waits = false;       // for the end of its pause
    Event told;               // set whenever nobody does
    Duration pause = Duration::zero();
    bool fits() const { return has == (wanted ? Has::kCurrent : Has::kNothing); }
  };
  // Shared by the table and whoever tells it: a new cell is known anew.
  using KnownPointer = std::shared_ptr<Known>;

  KnownPointer want(const Sandbox& sandbox, bool wanted);
  Task<> settle(Sandbox sandbox, KnownPointer known);
  Task<> settle_as_it_is(std::string id);
  Task<> tell(const Sandbox& sandbox, Known& known);
  Task<> send(const Sandbox& sandbox, std::string certificate_pem);
  void tell_soon(const std::string& id);
  void try_again_later(const std::string& id, Known& known, Instant now);
  Task<> work();
  Task<> end_pauses();

  Parts parts_;
  std::map<std::string, KnownPointer, std::less<>> known_;
  std::set<std::string> due_;
  Event pending_;  // something is due
  std::set<std::pair<Instant, std::string>> pauses_;
  Event failed_;  // somebody has a pause
};

}  // namespace atl::control
