// Services that we start ourselves: commands, and the workers of functions. Each is a context of
// its sandbox (sandbox-service-<id>), started by the first request, by a change of the services and
// when a sandbox runs again; started anew when it fails, with growing pauses. A sandbox that
// is paused is never woken for that.
//
// We follow the context's output from its first byte: a worker says on descriptor 3 which port it
// has, a command is looked at whenever it prints something, and now and then in between. After a
// restart of this process a command that still runs is followed again. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/scope.h"
#include "control/contexts.h"
#include "control/service.h"
#include "ingress/upstreams.h"

namespace atl::ingress {

class ServiceRunner {
 public:
  ServiceRunner(control::Contexts& contexts, control::Sandboxes& sandboxes, Upstreams& upstreams)
      : contexts_(contexts), sandboxes_(sandboxes), upstreams_(upstreams) {}

  // Owns what runs beside requests; until cancelled. REQUIRES: before ensure().
  Task<> run();
  // The port to connect to, once the service is ready. REQUIRES: the sandbox runs, and
  // is_started().
  Task<std::uint16_t> ensure(control::SandboxServicesPtr services, const control::Service& service);
  // The services of a sandbox are others now, or its processes are new: starts what is to run, if
  // the sandbox does, and ends what is not.
  void refresh(control::SandboxServicesPtr services);
  // A worker did not answer in time: it is started anew unless it answers now.
  void suspect(control::SandboxServicesPtr services, const control::Service& service);

 private:
  enum class State : std::uint8_t { kIdle, kStarting, kReady, kFailed };
  struct Runtime {
    control::SandboxRef sandbox;
    control::Service service;
    std::string label;                    // says what is running: another one is another service
    control::SandboxServicesPtr said_by;  // the label is known to be right for these
    State state = State::kIdle;
    bool supervised = false;
    bool retired = false;
    std::uint16_t port = 0;  // 0: not known
    Error failure;
    Event changed;  // state
    Event printed;
  };
  using RuntimePointer = std::shared_ptr<Runtime>;  // shared by the table and its tasks

  RuntimePointer runtime_of(const control::SandboxServicesPtr& services,
                            const control::Service& service);
  void start(RuntimePointer runtime);
  void set_state(Runtime& runtime, State state);
  Task<> wait_until_decided(RuntimePointer runtime);
  Task<> supervise(RuntimePointer runtime);
  // The exit code of the process, once it has ended; an error when we lost sight of it.
  Task<int> run_once(RuntimePointer runtime);
  Task<std::unique_ptr<control::ProcessStream>> attach_or_start(RuntimePointer runtime,
                                                                bool& fresh);
  static Result<> check_wanted(const Runtime& runtime);
  Task<int> follow(RuntimePointer runtime, control::ProcessStream& stream);
  Task<> become_ready(RuntimePointer runtime);
  Task<> probe(RuntimePointer runtime);
  Task<> refresh_now(control::SandboxServicesPtr services);
  Task<> remove_others(control::SandboxRef sandbox, std::set<std::string> wanted);
  Task<> check_worker(RuntimePointer runtime);
  bool is_running(const control::SandboxRef& sandbox) const;
  bool is_known(const control::SandboxRef& sandbox, std::string_view context_id) const;
  void forget_lost();

  control::Contexts& contexts_;
  control::Sandboxes& sandboxes_;
  Upstreams& upstreams_;
  Scope* scope_ = nullptr;
  std::map<std::string, RuntimePointer, std::less<>> runtimes_;  // by sandbox and service
  std::size_t tidy_at_ = 64;
};

// The id of the context of a service.
std::string service_context_id(std::string_view service_id);

}  // namespace atl::ingress
