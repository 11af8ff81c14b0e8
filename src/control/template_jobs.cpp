#include "control/template_jobs.h"

#include <algorithm>
#include <filesystem>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/prepared_cells.h"

namespace atl::control {
namespace {

Task<> wait_for_ever() {
  Event never;
  co_return co_await never.wait();
}

// Nobody has all of what everybody shares.
constexpr auto kMaxBuildsPerTeam = static_cast<std::ptrdiff_t>(kMaxBuildsAtOnce - 1);
constexpr auto kMaxTemplatesPerTeam = static_cast<std::ptrdiff_t>(kMaxTemplates / 2);
constexpr std::size_t kMaxAllLogBytes = 8 * kMaxBuildLogBytes;

void ignore_errors(const char*, const Error&) {}

bool is_ours(std::string_view layer) {
  return layer.starts_with(kImageLayerPrefix) || layer.starts_with(kBuildLayerPrefix);
}

std::unexpected<Error> protected_builtin(std::string_view name) {
  return fail(Code::kPermissionDenied,
              concat("template ", name, " is builtin and cannot be changed or deleted"),
              "builtin_template");
}

}  // namespace

TemplateJobs::TemplateJobs(Parts parts)
    : parts_(std::move(parts)),
      factory_({parts_.reactor, parts_.pool, parts_.node, parts_.sandboxes, parts_.build_limits}),
      starts_(parts_.reactor, parts_.sandboxes, parts_.snapshots) {
  parts_.sandboxes.on_template_event([this](const node::Event& event) { on_builtin_event(event); });
}

Task<> TemplateJobs::start() {
  std::error_code error;
  std::filesystem::remove_all(parts_.directory, error);
  std::filesystem::create_directory(parts_.directory, error);
  if (error) {
    co_return fail(errno_error(concat("preparing ", parts_.directory), error.value()));
  }
  CO_TRY_DO(co_await starts_.forget_lost());
  CO_TRY(auto layers, co_await with_deadline(kNodeTimeout, parts_.node.list_layers()));
  co_return co_await remove_unreferenced(std::move(layers));
}

Task<> TemplateJobs::run() {
  Scope scope{co_await current_context()};
  scope.on_error(ignore_errors);  // a job says in its log what went wrong
  scope_ = &scope;
  auto ended = co_await wait_for_ever();
  scope_ = nullptr;
  (void)co_await scope.cancel_and_join();
  co_return std::move(ended);
}

// Removes those of the candidates that are ours and that no template and no sandbox needs.
Task<> TemplateJobs::remove_unreferenced(std::vector<std::string> candidates) {
  if (parts_.sandboxes.prepared() != nullptr) {
    if (auto drained = co_await parts_.sandboxes.prepared()->drain_stale(); !drained) {
      LOG_WARN("layers that nothing needs stay for now", {"because", drained.error()});
      co_return ok();
    }
  }
  std::set<std::string> needed = parts_.sandboxes.used_layers();
  for (const Template& value : parts_.sandboxes.templates().all()) {
    needed.insert(value.layers.begin(), value.layers.end());
  }
  std::size_t removed = 0;
  for (const std::string& layer : candidates) {
    if (!is_ours(layer) || needed.contains(layer)) {
      continue;
    }
    auto gone = co_await with_deadline(kNodeTimeout, parts_.node.remove_layer(layer));
    if (!gone) {
      LOG_WARN("a layer could not be removed", {"layer", layer}, {"error", gone.error()});
    } else {
      ++removed;
    }
  }
  if (removed > 0) {
    LOG_INFO("removed layers that nothing needs", {"count", removed});
  }
  co_return ok();
}

// Layers of failed builds and of stages that are no template serve as a cache, up to a number.
Task<> TemplateJobs::trim_cache() {
  if (running_ > 0) {
    co_return ok();
  }
  CO_TRY(auto layers, co_await with_deadline(kNodeTimeout, parts_.node.list_layers()));
  std::erase_if(layers, [](const std::string& layer) { return !is_ours(layer); });
  if (layers.size() > kMaxCachedLayers) {
    CO_TRY_DO(co_await remove_unreferenced(std::move(layers)));
  }
  co_return ok();
}

// --- rows ------------------------------------------------------------------------------------

Result<> TemplateJobs::check_idle(std::string_view name) const {
  const auto found = jobs_.find(name);
  if (found != jobs_.end() && found->second->cancel) {
    return fail(Code::kFailedPrecondition, concat("template ", name, " is being made just now"),
                "template_not_ready");
  }
  return {};
}

Result<> TemplateJobs::check_free(std::string_view name, std::string_view team_id) const {
  TRY_DO(check_idle(name));
  return check_room(team_id);
}

Result<> TemplateJobs::check_room(std::string_view team_id) const {
  if (running_ >= kMaxBuildsAtOnce) {
    return fail(Code::kUnavailable,
                concat("there are ", running_, " builds under way already; try again later"));
  }
  const auto of_team = std::ranges::count_if(jobs_, [&](const auto& item) {
    return item.second->cancel && item.second->team_id == team_id;
  });
  if (of_team >= kMaxBuildsPerTeam) {
    return fail(
        Code::kUnavailable,
        concat("there are ", of_team, " builds of this team under way already; try again later"));
  }
  return {};
}

// The template as somebody of this team may change it.
Result<Template> TemplateJobs::own(const TemplateRef& ref) const {
  TRY(Template row, parts_.sandboxes.templates().find(ref.name, ref.team_id));
  if (row.builtin) {
    return protected_builtin(row.name);
  }
  if (row.team_id != ref.team_id) {
    return fail(Code::kPermissionDenied, concat("template ", row.name, " is of another team"));
  }
  return row;
}

Result<> TemplateJobs::check_new(const TemplateRef& ref) const {
  TRY_DO(check_template_name(ref.name));
  if (parts_.sandboxes.templates().taken(ref.name)) {
    return fail(Code::kAlreadyExists, concat("there is a template \"", ref.name, "\" already"));
  }
  const auto all = parts_.sandboxes.templates().all();
  const auto of_team = std::ranges::count(all, ref.team_id, &Template::team_id);
  if (all.size() >= kMaxTemplates || of_team >= kMaxTemplatesPerTeam) {
    return fail(Code::kResourceExhausted,
                concat("there are at most ", kMaxTemplatesPerTeam, " templates of a team and ",
                       kMaxTemplates, " of all; delete some first"),
                "quota_exceeded");
  }
  return {};
}

Task<Template> TemplateJobs::register_new(const TemplateRef& ref, std::string spec) {
  CO_TRY_DO(check_new(ref));
  const UnixMillis now = parts_.clock.now();
  Template row{.name = ref.name,
               .spec = std::move(spec),
               .builtin = false,
               .updated_at = now,
               .team_id = ref.team_id,
               .state = TemplateState::kCreating,
               .created_at = now};
  CO_TRY_DO(co_await parts_.sandboxes.changeable_templates().put(parts_.store, row));
  co_return row;
}

Task<Template> TemplateJobs::create(TemplateRef ref, Json spec, PullOptions options) {
  CO_TRY(const TemplateSpec parsed, parse_template_spec(spec));
  if (parsed.image.empty()) {
    co_return fail(Code::kInvalidArgument,
                   "\"spec.mainContainer.image\" is required; to build from a Dockerfile use "
                   "/api/v1/templates/{id}/build");
  }
  CO_TRY(const std::string reference, oci::check_reference(parsed.image));
  CO_TRY_DO(check_free(ref.name, ref.team_id));
  CO_TRY(const Template row, co_await register_new(ref, spec.dump()));
  CO_TRY_DO(co_await begin(row, [this, reference, options = std::move(options)](Job& job) {
    return fetch(job, reference, options);
  }));
  co_return row;
}

Task<Template> TemplateJobs::update(TemplateRef ref, Json spec) {
  CO_TRY(const TemplateSpec parsed, parse_template_spec(spec));
  CO_TRY(Template row, own(ref));
  CO_TRY_DO(check_free(row.name, row.team_id));
  const auto before = Json::parse(row.spec);
  const auto old = before ? parse_template_spec(*before) : Result<TemplateSpec>{};
  const std::string old_image = old ? old->image : "";
  if (!parsed.image.empty() && parsed.image != old_image) {
    CO_TRY(const std::string reference, oci::check_reference(parsed.image));
    row.spec = spec.dump();
    row.updated_at = parts_.clock.now();
    CO_TRY_DO(co_await parts_.sandboxes.changeable_templates().put(parts_.store, row));
    CO_TRY_DO(
        co_await begin(row, [this, reference](Job& job) { return fetch(job, reference, {}); }));
    co_return row;
  }
  row.spec = spec.dump();
  row.updated_at = parts_.clock.now();
  CO_TRY_DO(co_await parts_.sandboxes.changeable_templates().put(parts_.store, row));
  co_return row;
}

std::string TemplateJobs::start_state(std::string_view name) const {
  return parts_.sandboxes.templates().defaults(name).start.state;
}

Task<> TemplateJobs::remove(TemplateRef ref) {
  CO_TRY(const Template row, own(ref));
  CO_TRY_DO(check_idle(row.name));
  if (parts_.sandboxes.template_needed(row.name, start_state(row.name))) {
    co_return fail(Code::kFailedPrecondition,
                   concat("template ", row.name, " has sandboxes or snapshots; delete them first"),
                   "template_in_use");
  }
  CO_TRY_DO(co_await starts_.forget(start_state(row.name)));
  CO_TRY_DO(co_await parts_.sandboxes.changeable_templates().remove(parts_.store, row.name));
  ATOLL_FAULT_POINT("control.template_remove.recorded");
  jobs_.erase(row.name);
  LOG_INFO("template removed", {"template", row.name});
  if (running_ == 0) {
    CO_TRY_DO(co_await remove_unreferenced(row.layers));
  }
  co_return ok();
}

// --- jobs ------------------------------------------------------------------------------------

Result<std::string> TemplateJobs::make_directory(const std::string& below) {
  std::string path = concat(below, "/job-", random_label(16));
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (error) {
    return fail(errno_error(concat("making ", path), error.value()));
  }
  return path;
}

Result<std::shared_ptr<BuildLog>> TemplateJobs::log(std::string_view name) const {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) {
    return fail(Code::kNotFound, concat("nothing was made for template \"", to_valid_utf8(name),
                                        "\" since the server started"));
  }
  return found->second->log;
}

void TemplateJobs::cancel(std::string_view name) {
  const auto found = jobs_.find(name);
  if (found != jobs_.end() && found->second->cancel) {
    found->second->cancel->cancel();
  }
}

Task<std::shared_ptr<BuildLog>> TemplateJobs::begin(Template row, Work work,
                                                    BuildFinished finished) {
  if (scope_ == nullptr) {
    co_return fail(Code::kUnavailable, "the server is stopping");
  }
  auto job = std::make_shared<Job>();
  CO_TRY(job->directory, make_directory(parts_.directory));
  job->team_id = row.team_id;
  job->finished = std::move(finished);
  job->cancel = std::make_unique<CancelState>(scope_->context().cancel);
  jobs_.insert_or_assign(row.name, job);
  ++running_;
  scope_->spawn("template", run_job(row.name, std::move(work)));
  co_return job->log;
}

Task<> TemplateJobs::run_job(std::string name, Work work) {
  const std::shared_ptr<Job> job = jobs_.at(name);
  TaskContext inner{(co_await current_context()).loop, job->cancel.get()};
  auto built = co_await parts_.scratch.while_room(work(*job)).under(inner);
  if (!built && built.error().code == Code::kCancelled) {
    built = fail(Code::kCancelled, "it was cancelled");
  }
  (void)co_await shielded(parts_.pool.run([directory = job->directory]() -> Result<> {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    return {};
  }));
  // Last: whoever reads that it is ready may change or delete it at once.
  auto settled = co_await shielded(settle({job->team_id, name}, built));
  --running_;
  job->cancel.reset();
  Result<> outcome = built ? std::move(settled) : Result<>{fail(built.error())};
  if (job->finished) {
    (void)co_await shielded(job->finished(outcome, job->step));
  }
  Json last = Json::object();
  if (outcome) {
    last = Json::object({{"type", "done"}, {"template_id", name}});
    LOG_INFO("template is ready", {"template", name});
  } else {
    last = Json::object({{"type", "error"},
                         {"code", code_name(outcome.error().code)},
                         {"message", to_valid_utf8(outcome.error().message)}});
    LOG_WARN("template could not be made", {"template", name}, {"error", outcome.error()});
  }
  job->log->end(outcome, std::move(last));
  job->ended_at = parts_.clock.now();
  drop_old_logs();
  co_return co_await shielded(trim_cache());
}

// Templates may be many, and each has had a job: the oldest logs go when all take too much.
void TemplateJobs::drop_old_logs() {
  for (;;) {
    std::size_t bytes = 0;
    auto oldest = jobs_.end();
    for (auto at = jobs_.begin(); at != jobs_.end(); ++at) {
      bytes += at->second->log->bytes();
      if (at->second->log->ended() &&
          (oldest == jobs_.end() || at->second->ended_at < oldest->second->ended_at)) {
        oldest = at;
      }
    }
    if (bytes <= kMaxAllLogBytes || oldest == jobs_.end()) {
      return;
    }
    jobs_.erase(oldest);
  }
}

// The row says how it ended. A rebuild that failed leaves what was there.
Task<> TemplateJobs::settle(TemplateRef ref, const Result<BuiltImage>& built) {
  const std::string state = built ? built->start.state : "";
  const std::string before = start_state(ref.name);
  auto recorded = co_await record_outcome(std::move(ref), built);
  // One of the two is no template's now.
  const std::string& lost = recorded ? before : state;
  if (built && before != state) {
    if (auto forgotten = co_await starts_.forget(lost); !forgotten) {
      LOG_WARN("the state of a template stays until the next start", {"snapshot", lost},
               {"error", forgotten.error()});
    }
  }
  co_return std::move(recorded);
}

Task<> TemplateJobs::record_outcome(TemplateRef ref, const Result<BuiltImage>& built) {
  CO_TRY(Template row, parts_.sandboxes.templates().find(ref.name, ref.team_id));
  row.updated_at = parts_.clock.now();
  if (built) {
    row.layers = built->layers;
    Json config = oci::to_json(built->config);
    if (built->start != TemplateStart{}) {
      config.set("start", to_json(built->start));
    }
    row.config = config.dump();
    row.state = TemplateState::kReady;
    row.failure.clear();
  } else if (row.layers.empty()) {
    row.state = TemplateState::kFailed;
    row.failure = built.error().message;
  } else {
    co_return ok();
  }
  co_return co_await parts_.sandboxes.changeable_templates().put(parts_.store, std::move(row));
}

}  // namespace atl::control
