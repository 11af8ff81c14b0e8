#include "control/template_starts.h"

#include <algorithm>

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr Duration kReadyTimeout = std::chrono::minutes{10};
constexpr Duration kReadyInterval = std::chrono::seconds{2};
// A command that says nothing about when it is ready has this long.
constexpr Duration kQuietStart = std::chrono::seconds{20};
// If this process ends meanwhile, nobody else would remove the sandbox.
constexpr std::int64_t kBootSeconds = 1800;
constexpr std::string_view kPrefix = "[finalize]";
constexpr const char* kBootLabel = "atoll.template";

guest::SpawnRequest in_shell(const TemplateStart& start, std::string command, std::string id) {
  return {.process_id = std::move(id), .argv = {start.shell, "-l", "-c", std::move(command)}};
}

std::vector<std::string> environment_of(const auto& env) {
  std::vector<std::string> out;
  out.reserve(env.size());
  for (const auto& [name, value] : env) {
    out.push_back(concat(name, "=", value));
  }
  return out;
}

// Another beginning would not help against these.
bool is_final(const Error& error) {
  return error.code == Code::kInvalidArgument || error.code == Code::kResourceExhausted ||
         error.code == Code::kAlreadyExists || error.code == Code::kCancelled ||
         error.code == Code::kPermissionDenied;
}

}  // namespace

struct TemplateStarts::Booted {
  std::optional<guest::ExitStatus> exit;  // of the start command
  Event ended;

  bool failed() const { return exit && (!exit->exited || exit->exit_code != 0); }
};

TemplateStarts::TemplateStarts(io::Reactor& reactor, Sandboxes& sandboxes, Snapshots& snapshots)
    : reactor_(reactor), sandboxes_(sandboxes), snapshots_(snapshots) {
  sandboxes_.on_claim(this);
}

TemplateStarts::~TemplateStarts() {
  sandboxes_.on_claim(nullptr);
}

// --- claims ----------------------------------------------------------------------------------

Task<ClaimAnswer> TemplateStarts::claim(ClaimRequest request, Next next) {
  const auto source = request.origin
                          ? Result<Template>{fail(Code::kNotFound, "")}
                          : sandboxes_.templates().find(request.template_name, request.team_id);
  if (!source || sandboxes_.templates().defaults(source->name).start.command.empty()) {
    co_return co_await next(std::move(request));
  }
  const TemplateDefaults defaults = sandboxes_.templates().defaults(source->name);
  if (!defaults.start.state.empty() && request.mounts.empty() && request.own_mounts.empty()) {
    auto running = co_await claim_running(request, next, *source, defaults.start.state);
    if (running || is_final(running.error())) {
      co_return std::move(running);
    }
    LOG_WARN("a template's state does not come back; its command is started instead",
             {"template", source->name}, {"error", running.error()});
  }
  CO_TRY(auto answer, co_await next(std::move(request)));
  if (!answer.created || answer.remembered) {
    co_return std::move(answer);
  }
  co_return co_await start_in(std::move(answer), defaults);
}

Task<ClaimAnswer> TemplateStarts::claim_running(ClaimRequest request, const Next& next,
                                                const Template& source, std::string state) {
  CO_TRY(const Snapshot snapshot,
         co_await snapshots_.hold(source.team_id, {StateRef::Kind::kTemplateStart, state}));
  request.template_name = source.name;
  request.origin = Origin{.snapshot_id = snapshot.id,
                          .layers = snapshot.layers,
                          .limits = snapshot.limits,
                          .parent_id = "",
                          .ephemeral_tmp = snapshot.ephemeral_tmp,
                          .descent = {},
                          .memory = true};
  auto answer = co_await next(std::move(request));
  (void)co_await snapshots_.release(snapshot.id);
  co_return std::move(answer);
}

Task<ClaimAnswer> TemplateStarts::start_in(ClaimAnswer answer, TemplateDefaults defaults) {
  for (const Sandbox& sandbox : answer.sandboxes) {
    guest::SpawnRequest request = in_shell(defaults.start, defaults.start.command, kStartProcess);
    store::StringMap env = sandbox.env;
    env.insert(defaults.env.begin(), defaults.env.end());
    request.env = environment_of(env);
    request.cwd = defaults.cwd;
    request.user = defaults.user;
    request.keep = true;
    const GuestClient guest{reactor_, sandboxes_.guest_socket_now(sandbox.id)};
    if (auto started = co_await guest.spawn(std::move(request)); !started) {
      // The sandbox is there all the same, and whoever uses it sees that it does not run.
      LOG_WARN("the start command of a template did not start", {"sandbox", sandbox.id},
               {"error", started.error()});
    }
  }
  co_return std::move(answer);
}

// --- making it -------------------------------------------------------------------------------

Task<std::string> TemplateStarts::keep(StartRequest request, StepLog& log) {
  ClaimRequest claim{.team_id = request.team_id,
                     .template_name = request.template_name,
                     .resources = request.resources,
                     .hard_ttl_seconds = kBootSeconds,
                     .auto_resume = false,
                     .labels = {{kBootLabel, request.template_name}}};
  claim.origin = Origin{.snapshot_id = "",
                        .layers = request.image.layers,
                        .limits = request.limits,
                        .parent_id = "",
                        .descent = {}};
  CO_TRY(const Sandbox sandbox, co_await sandboxes_.claim(std::move(claim)));
  auto kept = co_await keep_in(sandbox, std::move(request), log);
  auto removed = co_await shielded(sandboxes_.remove(sandbox.team_id, sandbox.id));
  if (!removed) {
    LOG_WARN("the sandbox of a template's start stays for a while", {"sandbox", sandbox.id},
             {"error", removed.error()});
  }
  co_return std::move(kept);
}

Task<std::string> TemplateStarts::keep_in(const Sandbox& sandbox, StartRequest request,
                                          StepLog& log) {
  const GuestClient guest{reactor_, sandboxes_.guest_socket_now(sandbox.id)};
  Booted booted;
  Scope following{co_await current_context()};
  if (!request.image.start.command.empty()) {
    guest::SpawnRequest spawn =
        in_shell(request.image.start, request.image.start.command, kStartProcess);
    spawn.env = environment_of(request.image.config.env);
    spawn.cwd = request.image.config.working_dir;
    spawn.user = request.image.config.user;
    spawn.keep = true;
    log.add("info", concat(kPrefix, " starting: ", request.image.start.command));
    CO_TRY(auto process, co_await guest.spawn(std::move(spawn)));
    following.spawn("start command", follow(std::move(process), booted, log));
  }
  auto ready = co_await wait_ready(guest, request, booted, log);
  (void)co_await following.cancel_and_join();  // nobody is connected when memory is kept
  log.end_output(kPrefix);
  CO_TRY_DO(std::move(ready));
  if (request.image.start.command.empty()) {
    co_return std::string{};
  }
  auto taken = co_await snapshots_.create(
      sandbox.team_id, sandbox.id,
      {.name = request.template_name, .memory = true, .template_start = true});
  if (!taken && taken.error().code == Code::kCancelled) {
    co_return fail(std::move(taken).error());
  }
  if (!taken) {
    log.add("warn", concat(kPrefix, " its memory is not kept (", taken.error().message,
                           "); the command is started with each sandbox instead"));
    co_return std::string{};
  }
  log.add("info", concat(kPrefix, " the running command is kept"));
  co_return taken->snapshot.id;
}

Task<> TemplateStarts::follow(std::unique_ptr<ProcessStream> process, Booted& booted,
                              StepLog& log) {
  for (;;) {
    CO_TRY(const auto event, co_await process->next());
    if (const auto* output = std::get_if<guest::Output>(&event)) {
      log.output(kPrefix, *output);
      continue;
    }
    booted.exit = std::get<guest::ExitStatus>(event);
    booted.ended.set();
    co_return ok();
  }
}

namespace {

Task<> wait_for_end(Event& ended) {
  co_return co_await ended.wait();
}

}  // namespace

Task<> TemplateStarts::wait_ready(const GuestClient& guest, const StartRequest& request,
                                  Booted& booted, StepLog& log) {
  Loop& loop = *(co_await current_context()).loop;
  const Instant deadline = loop.now() + kReadyTimeout;
  const bool quiet = request.image.start.ready.empty();
  if (quiet) {
    log.add("info", concat(kPrefix, " waiting ", kQuietStart / std::chrono::seconds{1},
                           " s for the start command"));
  }
  for (int turn = 0;; ++turn) {
    if (!quiet) {
      CO_TRY(const bool ready, co_await is_ready(guest, request, turn, deadline - loop.now(), log));
      if (ready) {
        log.add("info", concat(kPrefix, " ready"));
        co_return ok();
      }
    }
    auto ended = booted.exit ? Result<>{co_await sleep_for(quiet ? kQuietStart : kReadyInterval)}
                             : co_await with_deadline(quiet ? kQuietStart : kReadyInterval,
                                                      wait_for_end(booted.ended));
    if (!ended && ended.error().code == Code::kCancelled) {
      co_return std::move(ended);
    }
    if (booted.failed()) {
      co_return fail(
          Code::kFailedPrecondition,
          concat("start command '", request.image.start.command, "' ",
                 booted.exit->exited ? concat("failed with exit code ", booted.exit->exit_code)
                                     : concat("was ended by signal ", booted.exit->signal)),
          "step_failed");
    }
    if (quiet) {
      co_return ok();
    }
    if (loop.now() >= deadline) {
      co_return fail(
          Code::kDeadlineExceeded,
          concat("ready command '", request.image.start.ready, "' did not succeed within ",
                 kReadyTimeout / std::chrono::minutes{1}, " minutes"),
          "step_failed");
    }
  }
}

Task<bool> TemplateStarts::is_ready(const GuestClient& guest, const StartRequest& request, int turn,
                                    Duration left, StepLog& log) {
  guest::SpawnRequest spawn =
      in_shell(request.image.start, request.image.start.ready, concat("ready-", turn));
  spawn.env = environment_of(request.image.config.env);
  spawn.cwd = request.image.config.working_dir;
  spawn.user = request.image.config.user;
  spawn.timeout_ms =
      static_cast<std::uint64_t>(std::max(left, kReadyInterval) / std::chrono::milliseconds{1});
  CO_TRY(const auto process, co_await guest.spawn(std::move(spawn)));
  for (;;) {
    CO_TRY(const auto event, co_await process->next());
    if (const auto* exit = std::get_if<guest::ExitStatus>(&event)) {
      if (!exit->exited || exit->exit_code != 0) {
        log.add("debug", concat(kPrefix, " not ready yet"));
      }
      co_return exit->exited && exit->exit_code == 0;
    }
  }
}

Task<> TemplateStarts::forget_lost() {
  const Templates& templates = sandboxes_.templates();
  for (const Sandbox& sandbox : sandboxes_.all()) {
    // Nobody but keep() makes one of a template that never was ready.
    const auto source = templates.find(sandbox.template_name, sandbox.team_id);
    if (!source || source->builtin || !source->layers.empty() ||
        !sandbox.labels.contains(kBootLabel)) {
      continue;
    }
    if (auto removed = co_await sandboxes_.remove(sandbox.team_id, sandbox.id); !removed) {
      LOG_WARN("the sandbox of a template's start stays for a while", {"sandbox", sandbox.id},
               {"error", removed.error()});
    }
  }
  for (const Snapshot& state : snapshots_.template_starts()) {
    if (templates.defaults(state.template_name).start.state != state.id) {
      LOG_INFO("removing a state that no template has", {"snapshot", state.id});
      CO_TRY_DO(co_await snapshots_.remove_start(state.id));
    }
  }
  co_return ok();
}

}  // namespace atl::control
