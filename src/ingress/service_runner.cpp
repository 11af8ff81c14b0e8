#include "ingress/service_runner.h"

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"
#include "control/service_document.h"
#include "ingress/forwarder.h"
#include "ingress/function_worker.h"

namespace atl::ingress {
namespace {

using control::Service;

constexpr Duration kReadyPatience = std::chrono::seconds{60};  // of a request
constexpr Duration kProbePatience = std::chrono::minutes{5};   // of a start
constexpr Duration kProbeTimeout = std::chrono::seconds{5};
constexpr Duration kFirstProbe = std::chrono::milliseconds{10};
constexpr Duration kLastProbe = std::chrono::milliseconds{250};
constexpr Duration kFirstPause = std::chrono::seconds{1};
constexpr Duration kLastPause = std::chrono::seconds{60};
constexpr Duration kStable =
    std::chrono::seconds{60};  // ran this long: the next failure is a first

constexpr std::string_view kLabel = "sandbox-service:";  // begins those of our contexts

void ignore_errors(const char*, const Error&) {}

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

Task<> wait_for_ever() {
  Event never;
  co_return co_await never.wait();
}

std::string label_of(const Service& service) {
  return concat(kLabel, service.id, ":",
                hex(sha256(control::service_json(service).dump())).substr(0, 32));
}

control::ContextRequest context_request(const Service& service, const std::string& label) {
  const bool function = service.runtime == Service::Runtime::kFunction;
  control::ContextRequest request{
      .command = function ? worker_command(*service.function) : service.command,
      .cwd = service.cwd,
      .env = service.env,
      .keep_input_open = function,
      .channel = function,
      .id = service_context_id(service.id),
      .label = label};
  const std::string port = std::to_string(service.port);
  for (const std::string prefix : {"ATOLL_SERVICE_", "SANDBOX0_SERVICE_"}) {
    request.env.emplace(prefix + "ID", service.id);
    request.env.emplace(prefix + "PORT", port);
    request.env.emplace(prefix + "RUNTIME", function ? "function" : "cmd");
  }
  return request;
}

Task<> send_input(control::ProcessStream& stream, std::string text) {
  CO_TRY_DO(co_await stream.send_input(text));
  co_return co_await stream.end_input();
}

}  // namespace

std::string service_context_id(std::string_view service_id) {
  constexpr std::size_t kMaxPlainBytes = 48;  // ids of processes have at most 64
  return service_id.size() <= kMaxPlainBytes
             ? concat("sandbox-service-", service_id)
             : concat("sandbox-service-", hex(sha256(service_id)).substr(0, 32));
}

Task<> ServiceRunner::run() {
  Scope scope{co_await current_context()};
  scope.on_error(ignore_errors);
  scope_ = &scope;
  auto ended = co_await wait_for_ever();
  scope_ = nullptr;
  (void)co_await scope.cancel_and_join();
  co_return std::move(ended);
}

bool ServiceRunner::is_running(const control::SandboxRef& sandbox) const {
  const auto row = sandboxes_.get(sandbox.team_id, sandbox.sandbox_id);
  return row && row->status == control::SandboxStatus::kRunning;
}

void ServiceRunner::set_state(Runtime& runtime, State state) {
  runtime.state = state;
  runtime.changed.set();
}

void ServiceRunner::forget_lost() {
  std::erase_if(runtimes_, [this](const auto& each) {
    const auto& sandbox = each.second->sandbox;
    return !each.second->supervised && !sandboxes_.get(sandbox.team_id, sandbox.sandbox_id);
  });
  tidy_at_ = std::max<std::size_t>(64, 2 * runtimes_.size());
}

ServiceRunner::RuntimePointer ServiceRunner::runtime_of(const control::SandboxServicesPtr& services,
                                                        const Service& service) {
  if (runtimes_.size() >= tidy_at_) {
    forget_lost();
  }
  RuntimePointer& runtime = runtimes_[concat(services->sandbox_id, "/", service.id)];
  if (runtime && runtime->said_by == services) {
    return runtime;
  }
  const std::string label = label_of(service);
  if (!runtime || runtime->label != label) {
    if (runtime) {
      runtime->retired = true;
    }
    runtime = std::make_shared<Runtime>();
    runtime->sandbox = {services->team_id, services->sandbox_id};
    runtime->service = service;
    runtime->label = label;
  }
  runtime->said_by = services;
  return runtime;
}

void ServiceRunner::start(RuntimePointer runtime) {
  if (runtime->supervised || scope_ == nullptr) {
    return;
  }
  runtime->supervised = true;
  set_state(*runtime, State::kStarting);
  scope_->spawn("service", supervise(runtime));
}

Task<> ServiceRunner::wait_until_decided(RuntimePointer runtime) {
  while (runtime->state == State::kStarting) {
    runtime->changed.clear();
    CO_TRY_DO(co_await runtime->changed.wait());
  }
  co_return ok();
}

Task<std::uint16_t> ServiceRunner::ensure(control::SandboxServicesPtr services,
                                          const Service& service) {
  const RuntimePointer runtime = runtime_of(services, service);
  start(runtime);
  auto decided = co_await with_deadline(kReadyPatience, wait_until_decided(runtime));
  if (!decided && decided.error().code == Code::kDeadlineExceeded) {
    co_return fail(Code::kDeadlineExceeded, "the service did not become ready in time",
                   "not_ready");
  }
  CO_TRY_DO(std::move(decided));
  if (runtime->state != State::kReady) {
    co_return fail(runtime->failure);
  }
  co_return runtime->port;
}

// Ends when the process has ended well, when it is lost from sight (the sandbox stopped, or its
// memory went to disk: the next request looks again), or when it is not wanted any more.
Task<> ServiceRunner::supervise(RuntimePointer runtime) {
  Duration pause = kFirstPause;
  for (;;) {
    const Instant began = (co_await current_context()).loop->now();
    set_state(*runtime, State::kStarting);
    auto ended = co_await run_once(runtime);
    const Instant now = (co_await current_context()).loop->now();
    if (!ended && ended.error().code == Code::kCancelled) {
      runtime->supervised = false;
      co_return fail(std::move(ended).error());
    }
    runtime->failure =
        ended ? Error{Code::kUnavailable, concat("the service ended with exit code ", *ended),
                      "service_ended"}
              : ended.error();
    LOG_INFO("a service ended", {"sandbox", runtime->sandbox.sandbox_id},
             {"service", runtime->service.id}, {"error", runtime->failure});
    set_state(*runtime, State::kFailed);
    const bool lost = !ended && ended.error().reason == "lost";
    if (runtime->retired || lost || (ended && *ended == 0)) {
      break;
    }
    pause = now - began > kStable ? kFirstPause : pause;
    if (auto slept = co_await sleep_for(pause); !slept) {
      runtime->supervised = false;
      co_return std::move(slept);
    }
    pause = std::min(kLastPause, 2 * pause);
    if (runtime->retired || !is_running(runtime->sandbox)) {
      break;
    }
  }
  runtime->supervised = false;
  set_state(*runtime, State::kIdle);
  co_return ok();
}

// What took its place has the same context: that is not to be touched any more.
Result<> ServiceRunner::check_wanted(const Runtime& runtime) {
  if (runtime.retired) {
    return fail(Code::kUnavailable, "the service was replaced");
  }
  return {};
}

Task<std::unique_ptr<control::ProcessStream>> ServiceRunner::attach_or_start(RuntimePointer runtime,
                                                                             bool& fresh) {
  const Service& service = runtime->service;
  const std::string id = service_context_id(service.id);
  auto found = co_await contexts_.describe(runtime->sandbox, id);
  CO_TRY_DO(check_wanted(*runtime));
  const bool function = service.runtime == Service::Runtime::kFunction;
  if (found && found->running && found->label == runtime->label &&
      (!function || runtime->port != 0)) {
    CO_TRY(auto attached, co_await contexts_.follow_from_now(runtime->sandbox, id));
    fresh = false;
    co_return std::move(attached.stream);
  }
  if (found) {
    CO_TRY_DO(co_await contexts_.remove(runtime->sandbox, id));
  } else if (found.error().code != Code::kNotFound) {
    co_return fail(std::move(found).error());
  }
  CO_TRY_DO(check_wanted(*runtime));
  runtime->port = 0;
  CO_TRY(auto started, co_await contexts_.create_and_follow(
                           runtime->sandbox, context_request(service, runtime->label)));
  fresh = true;
  co_return std::move(started.stream);
}

Task<int> ServiceRunner::run_once(RuntimePointer runtime) {
  bool fresh = true;
  CO_TRY(auto stream, co_await attach_or_start(runtime, fresh));
  const bool function = runtime->service.runtime == Service::Runtime::kFunction;
  Scope beside{co_await current_context()};
  beside.on_error(ignore_errors);
  if (function && fresh) {
    beside.spawn("input", send_input(*stream, worker_input(runtime->service)));
  } else if (function) {
    set_state(*runtime, State::kReady);
  } else {
    beside.spawn("ready", become_ready(runtime));
  }
  auto ended = co_await follow(runtime, *stream);
  (void)co_await beside.cancel_and_join();
  co_return std::move(ended);
}

Task<int> ServiceRunner::follow(RuntimePointer runtime, control::ProcessStream& stream) {
  std::string said;  // on the channel, by a worker
  for (;;) {
    auto event = co_await stream.next();
    if (!event) {
      Error error = std::move(event).error();
      error.reason = error.code == Code::kCancelled ? error.reason : "lost";
      co_return fail(std::move(error));
    }
    if (const auto* status = std::get_if<guest::ExitStatus>(&*event)) {
      co_return static_cast<int>(status->exited ? status->exit_code : 128 + status->signal);
    }
    const auto& output = std::get<guest::Output>(*event);
    if (output.header.stream != guest::Stream::kChannel) {
      runtime->printed.set();
      continue;
    }
    said.append(output.bytes.substr(0, 64));
    const auto line = said.find('\n');
    const auto port = parse_u64(std::string_view{said}.substr(0, line));
    if (line != std::string::npos && port && *port > 0 && *port < 65'536 &&
        runtime->state == State::kStarting) {
      runtime->port = static_cast<std::uint16_t>(*port);
      set_state(*runtime, State::kReady);
    }
    said = said.size() > 256 ? std::string{} : std::move(said);
  }
}

Task<> ServiceRunner::become_ready(RuntimePointer runtime) {
  TaskContext& here = co_await current_context();
  const Instant deadline = here.loop->now() + kProbePatience;
  Duration pause = kFirstProbe;
  for (;;) {
    runtime->printed.clear();
    // Connecting wakes a sandbox, and only a request may do that.
    auto probed = is_running(runtime->sandbox)
                      ? co_await with_deadline(kProbeTimeout, probe(runtime))
                      : Result<>{fail(Code::kUnavailable, "the sandbox is paused")};
    if (probed) {
      runtime->port = runtime->service.port;
      set_state(*runtime, State::kReady);
      co_return ok();
    }
    if (probed.error().code == Code::kCancelled || here.loop->now() > deadline) {
      co_return std::move(probed);
    }
    // Most programs say something when they are there.
    auto told = co_await with_deadline(pause, wait_for(runtime->printed));
    if (!told && told.error().code == Code::kCancelled) {
      co_return std::move(told);
    }
    pause = std::min(kLastProbe, 2 * pause);
  }
}

// A connection, and a good answer when the service says where to ask.
Task<> ServiceRunner::probe(RuntimePointer runtime) {
  const Service& service = runtime->service;
  CO_TRY(auto taken,
         co_await upstreams_.take({.team_id = runtime->sandbox.team_id,
                                   .sandbox_id = runtime->sandbox.sandbox_id,
                                   .port = runtime->port != 0 ? runtime->port : service.port},
                                  true));
  const bool function = service.runtime == Service::Runtime::kFunction;
  if (service.health_path.empty() && !function) {
    co_return ok();
  }
  const std::string path = function ? "/" : service.health_path;
  CO_TRY(const std::string head,
         request_head("GET", path,
                      {{"host", "localhost"}, {function ? "x-atoll-ping" : "user-agent", "atoll"}},
                      ""));
  CO_TRY_DO(co_await taken.connection->wire.write(head));
  CO_TRY_DO(co_await read_answer_head(*taken.connection, false, false));
  const int status = taken.connection->wire.parser().head().status;
  if (status >= 400 && !function) {
    co_return fail(Code::kUnavailable, concat("the health check answered ", status));
  }
  co_return ok();
}

void ServiceRunner::refresh(control::SandboxServicesPtr services) {
  if (scope_ != nullptr) {
    scope_->spawn("service refresh", refresh_now(std::move(services)));
  }
}

Task<> ServiceRunner::refresh_now(control::SandboxServicesPtr services) {
  const control::SandboxRef sandbox{services->team_id, services->sandbox_id};
  const auto row = sandboxes_.get(sandbox.team_id, sandbox.sandbox_id);
  if (!row || (row->status != control::SandboxStatus::kRunning &&
               row->status != control::SandboxStatus::kStarting)) {
    co_return ok();
  }
  std::set<std::string> wanted;
  for (const Service& service : services->services) {
    if (service.is_started()) {
      wanted.insert(service_context_id(service.id));
    }
  }
  const std::string prefix = concat(sandbox.sandbox_id, "/");
  for (auto each = runtimes_.lower_bound(prefix);
       each != runtimes_.end() && each->first.starts_with(prefix);) {
    const bool retired = !wanted.contains(service_context_id(each->second->service.id));
    each->second->retired = each->second->retired || retired;
    each = retired ? runtimes_.erase(each) : std::next(each);
  }
  if (auto removed = co_await remove_others(sandbox, std::move(wanted)); !removed) {
    LOG_INFO("services that are not wanted any more may run on", {"sandbox", sandbox.sandbox_id},
             {"error", removed.error()});
  }
  for (const Service& service : services->services) {
    if (service.is_started()) {
      start(runtime_of(services, service));
    }
  }
  co_return ok();
}

// The services may have changed once more since somebody began to look.
bool ServiceRunner::is_known(const control::SandboxRef& sandbox,
                             std::string_view context_id) const {
  const std::string prefix = concat(sandbox.sandbox_id, "/");
  for (auto each = runtimes_.lower_bound(prefix);
       each != runtimes_.end() && each->first.starts_with(prefix); ++each) {
    if (service_context_id(each->second->service.id) == context_id) {
      return true;
    }
  }
  return false;
}

// Also those that an earlier process has started.
Task<> ServiceRunner::remove_others(control::SandboxRef sandbox, std::set<std::string> wanted) {
  CO_TRY(const auto contexts, co_await contexts_.list(sandbox));
  for (const control::Context& each : contexts) {
    const std::string& id = each.process.process_id;
    if (each.process.label.starts_with(kLabel) && !wanted.contains(id) && !is_known(sandbox, id)) {
      CO_TRY_DO(co_await contexts_.remove(sandbox, each.process.process_id));
    }
  }
  co_return ok();
}

void ServiceRunner::suspect(control::SandboxServicesPtr services, const Service& service) {
  const auto found = runtimes_.find(concat(services->sandbox_id, "/", service.id));
  if (scope_ != nullptr && found != runtimes_.end() && found->second->state == State::kReady) {
    scope_->spawn("service check", check_worker(found->second));
  }
}

Task<> ServiceRunner::check_worker(RuntimePointer runtime) {
  auto alive = co_await with_deadline(kProbeTimeout, probe(runtime));
  if (!alive && alive.error().code == Code::kDeadlineExceeded && is_running(runtime->sandbox)) {
    LOG_WARN("a function keeps its worker busy; it is started anew",
             {"sandbox", runtime->sandbox.sandbox_id}, {"service", runtime->service.id});
    constexpr std::uint32_t kKill = 9;
    co_return co_await contexts_.signal(runtime->sandbox, service_context_id(runtime->service.id),
                                        kKill);
  }
  co_return ok();
}

}  // namespace atl::ingress
