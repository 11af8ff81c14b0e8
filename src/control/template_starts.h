// Templates whose sandboxes begin with a command that runs already.
//
// While such a template is made, a sandbox of it is booted, the command started in it, and once it
// is ready the sandbox is kept as a snapshot with its memory. A claim then begins as that snapshot:
// the command has been running all the time and starts nothing again. Where memory cannot be kept,
// or does not come back, or the claim mounts volumes (which that memory knows nothing of), the
// command is started when the sandbox is there. Loop thread only.
#pragma once

#include <functional>
#include <string>

#include "control/dockerfile_build.h"
#include "control/guest_client.h"
#include "control/sandboxes.h"
#include "control/snapshots.h"
#include "control/step_log.h"

namespace atl::control {

struct StartRequest {
  std::string team_id;
  std::string template_name;
  ResourceRequest resources;
  store::Limits limits;  // of what is not asked for
  BuiltImage image;
};

class TemplateStarts final : public ClaimStarter {
 public:
  TemplateStarts(io::Reactor& reactor, Sandboxes& sandboxes, Snapshots& snapshots);
  ~TemplateStarts() override;
  TemplateStarts(const TemplateStarts&) = delete;
  TemplateStarts& operator=(const TemplateStarts&) = delete;

  Task<ClaimAnswer> claim(ClaimRequest request, Next next) override;
  // The snapshot in which the command runs and is ready; empty when memory cannot be kept here.
  // Fails when the command or the wait for it does.
  Task<std::string> keep(StartRequest request, StepLog& log);
  // What keep() made; nothing happens when it is gone.
  Task<> forget(std::string state) { return snapshots_.remove_start(std::move(state)); }
  // What keep() made for templates that were never told of it, because the process ended. REQUIRES:
  // no template is being made.
  Task<> forget_lost();

 private:
  struct Booted;
  Task<ClaimAnswer> claim_running(ClaimRequest request, const Next& next, const Template& source,
                                  std::string state);
  Task<ClaimAnswer> start_in(ClaimAnswer answer, TemplateDefaults defaults);
  Task<std::string> keep_in(const Sandbox& sandbox, StartRequest request, StepLog& log);
  Task<> follow(std::unique_ptr<ProcessStream> process, Booted& booted, StepLog& log);
  Task<> wait_ready(const GuestClient& guest, const StartRequest& request, Booted& booted,
                    StepLog& log);
  Task<bool> is_ready(const GuestClient& guest, const StartRequest& request, int turn,
                      Duration left, StepLog& log);

  io::Reactor& reactor_;
  Sandboxes& sandboxes_;
  Snapshots& snapshots_;
};

}  // namespace atl::control
