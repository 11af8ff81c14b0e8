// A template from a sandbox or a snapshot.
//
// What is captured is decided before the answer: the state is held from then on, so the sandbox may
// go on, be deleted, or its snapshot be removed. The job gives the state to a build cell as its
// disk and keeps that disk as a layer above the layers it stands on; nothing is copied, whatever
// the size. The new template shares the layers of the old one and needs it no longer.
#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/template_jobs.h"

namespace atl::control {
namespace {

// The spec of the template the state came from, without its image: this is another one now.
Json inherited_spec(const Result<Template>& source) {
  auto spec = source && !source->builtin ? Json::parse(source->spec) : Result<Json>{Json::object()};
  Json out = Json::object();
  if (!spec || spec->as_object() == nullptr) {
    return out;
  }
  for (const auto& [name, value] : *spec->as_object()) {
    if (name != "mainContainer" || value.as_object() == nullptr) {
      out.set(name, value);
      continue;
    }
    Json container = Json::object();
    for (const auto& [key, setting] : *value.as_object()) {
      if (key != "image") {
        container.set(key, setting);
      }
    }
    out.set(name, std::move(container));
  }
  return out;
}

oci::ImageConfig inherited_config(const Result<Template>& source,
                                  const TemplateDefaults& defaults) {
  if (source && !source->builtin) {
    const auto json = Json::parse(source->config);
    return json ? oci::config_from_json(*json) : oci::ImageConfig{};
  }
  oci::ImageConfig config;
  config.env = defaults.env;
  config.user = defaults.user;
  config.working_dir = defaults.cwd;
  return config;
}

}  // namespace

Task<Template> TemplateJobs::capture(TemplateRef ref, CaptureRequest request) {
  CO_TRY_DO(check_template_name(ref.name));
  if (parts_.sandboxes.templates().taken(ref.name)) {
    co_return fail(Code::kAlreadyExists, concat("there is a template \"", ref.name, "\" already"));
  }
  CO_TRY_DO(check_free(ref.name, ref.team_id));
  CO_TRY(const Snapshot state, co_await parts_.snapshots.hold(ref.team_id, request.source));
  auto begun = co_await capture_held(std::move(ref), std::move(request), state);
  if (!begun) {
    (void)co_await parts_.snapshots.release(state.id);
  }
  co_return std::move(begun);
}

// From its beginning on, the job releases the state.
Task<Template> TemplateJobs::capture_held(TemplateRef ref, CaptureRequest request,
                                          const Snapshot& state) {
  if (state.layers.size() >= node::kMaxLayersPerCell) {
    co_return fail(Code::kFailedPrecondition,
                   concat("it stands on ", state.layers.size(),
                          " layers already; export it and import it to make one of them"),
                   "too_many_layers");
  }
  const Templates& templates = parts_.sandboxes.templates();
  const auto source = templates.find(state.template_name, ref.team_id);
  Json spec = inherited_spec(source);
  for (const auto& [name, value] : request.overrides) {
    spec.set(name, value);
  }
  CO_TRY_DO(parse_template_spec(spec));
  oci::ImageConfig config =
      inherited_config(source, templates.defaults(state.template_name, ref.team_id));
  CO_TRY(Template row, co_await register_new(ref, spec.dump()));
  auto begun = co_await begin(row, [this, state, config = std::move(config)](Job& job) {
    return keep_state(job, state, config);
  });
  if (!begun) {
    (void)co_await settle(ref, fail(begun.error()));
    co_return fail(std::move(begun).error());
  }
  co_return std::move(row);
}

Task<BuiltImage> TemplateJobs::keep_state(Job& job, Snapshot state, oci::ImageConfig config) {
  job.log->note(concat("keeping the files of ",
                       state.sandbox_id.empty() ? state.id : state.sandbox_id, " as a layer"));
  const std::string layer = concat(kBuildLayerPrefix, "state-", random_label(24));
  auto kept = co_await factory_.keep_snapshot(layer, state.layers, state.id);
  (void)co_await parts_.snapshots.release(state.id);
  if (!kept) {
    co_return fail(std::move(kept).error());
  }
  std::vector<std::string> layers{layer};
  layers.insert(layers.end(), state.layers.begin(), state.layers.end());
  co_return BuiltImage{std::move(layers), std::move(config)};
}

}  // namespace atl::control
