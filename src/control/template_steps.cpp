// Templates by steps: see build_steps.h for the steps, template_starts.h for what runs at the end.
#include "base/strings.h"
#include "control/limits.h"
#include "control/template_jobs.h"

namespace atl::control {
namespace {

Result<ResourceRequest> resources_of(const Template& row) {
  TRY(const Json json, Json::parse(row.spec));
  TRY(TemplateSpec spec, parse_template_spec(json));
  return std::move(spec.resources);
}

}  // namespace

Task<std::shared_ptr<BuildLog>> TemplateJobs::build_steps(TemplateRef ref, Json spec,
                                                          StepsBuild request,
                                                          BuildFinished finished) {
  CO_TRY_DO(parse_template_spec(spec));
  CO_TRY_DO(check_free(ref.name, ref.team_id));
  if (!request.from_template) {
    CO_TRY(request.from, oci::check_reference(request.from));
  }
  for (const BuildStep& step : request.steps) {
    if (step.kind == BuildStep::Kind::kCopy && !request.files.contains(step.files_hash)) {
      co_return fail(Code::kFailedPrecondition,
                     concat("the files of step ", step.display(),
                            " are not here (any more); upload them again"),
                     "files_missing");
    }
  }
  CO_TRY(Template row, co_await register_new(ref, spec.dump()));
  auto begun = co_await begin(
      row, [this, row, request](Job& job) { return run_steps(job, row, request); }, finished);
  if (!begun) {
    (void)co_await settle(ref, fail(begun.error()));
  }
  co_return std::move(begun);
}

Task<BuiltImage> TemplateJobs::run_steps(Job& job, Template row, StepsBuild request) {
  StepLog log{*job.log, parts_.clock};
  StepsRequest steps{.find_base =
                         [this, &job, &request](std::string name) {
                           return request.from_template ? find_base(job, std::move(name), {})
                                                        : fetch(job, std::move(name), request.pull);
                         },
                     .base_name = request.from,
                     .steps = request.steps,
                     .force = request.force,
                     .from_template = request.from_template,
                     .network = {BuildNetwork::Kind::kSandbox, row.team_id, row.name},
                     .directory = job.directory,
                     .archive_path = [&request](const std::string& hash) -> Result<std::string> {
                       return request.files.at(hash)->path();
                     }};
  BuildSteps build{factory_, log, std::move(steps)};
  auto image = co_await build.run();
  if (image) {
    image = co_await finish_steps(*std::move(image), row, request, log);
  }
  job.step = log.step();
  co_return std::move(image);
}

Task<BuiltImage> TemplateJobs::finish_steps(BuiltImage image, const Template& row,
                                            const StepsBuild& request, StepLog& log) {
  log.begin("finalize");
  image.start.state.clear();  // of the template below
  if (request.start_command) {
    image.start.command = *request.start_command;
    image.start.ready = request.ready_command.value_or("");
  } else if (request.ready_command) {
    image.start.ready = *request.ready_command;
  }
  if (image.start.command.empty() && image.start.ready.empty()) {
    co_return std::move(image);
  }
  CO_TRY(ResourceRequest resources, resources_of(row));
  StartRequest start{.team_id = row.team_id,
                     .template_name = row.name,
                     .resources = std::move(resources),
                     .limits = parts_.build_limits,
                     .image = image};
  CO_TRY(image.start.state, co_await starts_.keep(std::move(start), log));
  co_return std::move(image);
}

}  // namespace atl::control
