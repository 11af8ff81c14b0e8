// Where the layers of a template come from: registries, archives, Dockerfiles, and the node's own
// recipes.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/template_jobs.h"

namespace atl::control {
namespace {

Task<> store_result(Task<Snapshot> task, Result<Snapshot>& result) {
  result = co_await std::move(task);
  co_return ok();
}

Result<BuildNetwork> parse_network(std::string_view network) {
  if (network == "none" || network == "default" || network.empty()) {
    return BuildNetwork{};
  }
  if (network == "host") {
    return BuildNetwork{.kind = BuildNetwork::Kind::kHost};
  }
  return fail(
      Code::kInvalidArgument,
      concat("build network \"", to_valid_utf8(network), "\" is not known; use none or host"),
      "build_network");
}

}  // namespace

Task<BuiltImage> TemplateJobs::open_layout(Job& job, std::string directory) {
  CO_TRY(const oci::Image image,
         co_await parts_.pool.run([&directory] { return oci::open_image_layout(directory); }));
  BuildLog& log = *job.log;
  CO_TRY(std::string layer,
         co_await factory_.import_image(image, [&log](std::string_view text) { log.note(text); }));
  co_return BuiltImage{{std::move(layer)}, image.config};
}

Task<BuiltImage> TemplateJobs::fetch(Job& job, std::string reference, PullOptions options) {
  BuildLog& log = *job.log;
  log.note(concat("fetching ", reference));
  CO_TRY(std::string directory, make_directory(job.directory));
  oci::FetchRequest request{.reference = std::move(reference),
                            .login = std::move(options.login),
                            .verify_tls = options.verify_tls,
                            .directory = std::move(directory),
                            .max_blob_bytes = kMaxUploadBytes,
                            .on_line = [&log](std::string_view line) { log.note(line); }};
  CO_TRY(
      std::string layout,
      co_await with_deadline(kFetchTimeout, oci::fetch_image(parts_.reactor, std::move(request))));
  co_return co_await open_layout(job, std::move(layout));
}

// FROM and COPY --from: a template of the team first, so that builds work without a registry.
Task<BuiltImage> TemplateJobs::find_base(Job& job, std::string reference, PullOptions options) {
  const Templates& templates = parts_.sandboxes.templates();
  if (templates.find(reference, job.team_id)) {
    CO_TRY(const Template row, templates.find_ready(reference, job.team_id));
    const TemplateDefaults& defaults = templates.defaults(row.name, job.team_id);
    BuiltImage image{row.layers, {}};
    if (row.builtin) {
      image.config.working_dir = "/";  // RUN is for root here, whatever user sandboxes have
    } else if (const auto json = Json::parse(row.config)) {
      image.config = oci::config_from_json(*json);
      image.start = start_from_json(json->find("start"));
    }
    image.config.env.insert(defaults.env.begin(), defaults.env.end());
    co_return image;
  }
  CO_TRY(std::string checked, oci::check_reference(reference));
  co_return co_await fetch(job, std::move(checked), std::move(options));
}

Task<BuiltImage> TemplateJobs::run_dockerfile(Job& job, UploadPointer upload,
                                              BuildOptions options) {
  BuildLog& log = *job.log;
  log.note("reading the build context");
  CO_TRY(const auto context,
         co_await parts_.pool.run([&]() -> Result<std::shared_ptr<oci::BuildContext>> {
           const Fd fd{::open(upload->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
           if (!fd) {
             return fail_errno("opening the build context");
           }
           return oci::BuildContext::open(fd.get(), job.directory,
                                          {.unpacked_bytes = kMaxUploadBytes});
         }));
  auto text = context->read_text(options.dockerfile, oci::kMaxDockerfileBytes);
  if (!text) {
    co_return fail(std::move(text).error().note("finding the Dockerfile"));
  }
  DockerfileRequest request{.context = context,
                            .arguments = std::move(options.arguments),
                            .target = std::move(options.target),
                            .use_cache = options.use_cache};
  CO_TRY(request.run_network, parse_network(options.network));
  if (request.run_network.kind == BuildNetwork::Kind::kHost) {
    log.note("RUN steps use the host's network");
  }
  CO_TRY(request.file, oci::parse_dockerfile(*text));
  DockerfileBuild build{factory_, log,
                        [this, &job, &options](std::string reference) {
                          return find_base(job, std::move(reference), options.pull);
                        },
                        std::move(request)};
  co_return co_await build.run();
}

Result<> TemplateJobs::check_build(const TemplateRef& ref, const BuildOptions& options) const {
  TRY_DO(parse_network(options.network));
  if (options.arguments.size() > kMaxBuildArguments) {
    return fail(Code::kInvalidArgument,
                concat("there are at most ", kMaxBuildArguments, " build arguments"));
  }
  return check_import(ref);
}

Result<> TemplateJobs::check_import(const TemplateRef& ref) const {
  TRY_DO(check_free(ref.name, ref.team_id));
  if (parts_.sandboxes.templates().find(ref.name, ref.team_id)) {
    TRY_DO(own(ref));
    return {};
  }
  return check_new(ref);
}

Result<> TemplateJobs::check_import_snapshot(const ImportRequest& request) const {
  TRY_DO(parts_.sandboxes.templates().find(request.template_name, request.team_id));
  TRY_DO(check_room(request.team_id));
  return parts_.snapshots.check_new(request.team_id, request.snapshot);
}

Task<std::shared_ptr<BuildLog>> TemplateJobs::build(TemplateRef ref, UploadPointer upload,
                                                    BuildOptions options) {
  CO_TRY_DO(check_build(ref, options));
  Template row;
  if (parts_.sandboxes.templates().find(ref.name, ref.team_id)) {
    CO_TRY(row, own(ref));
  } else {
    CO_TRY(row, co_await register_new(ref, "{}"));
  }
  co_return co_await begin(std::move(row), [this, upload, options](Job& job) {
    return run_dockerfile(job, upload, options);
  });
}

Task<std::shared_ptr<BuildLog>> TemplateJobs::import(TemplateRef ref, UploadPointer upload) {
  CO_TRY_DO(check_import(ref));
  Template row;
  if (parts_.sandboxes.templates().find(ref.name, ref.team_id)) {
    CO_TRY(row, own(ref));
  } else {
    CO_TRY(row, co_await register_new(ref, "{}"));
  }
  co_return co_await begin(std::move(row),
                           [this, upload](Job& job) { return import_archive(job, upload); });
}

Task<Snapshot> TemplateJobs::import_snapshot(UploadPointer upload, ImportRequest request) {
  CO_TRY(const Template row,
         parts_.sandboxes.templates().find(request.template_name, request.team_id));
  CO_TRY_DO(check_room(request.team_id));
  Job job;
  CO_TRY(job.directory, make_directory(parts_.directory));
  ++running_;  // no layer that nothing refers to is removed meanwhile
  auto image = co_await parts_.scratch.while_room(import_archive(job, upload));
  Result<Snapshot> snapshot = fail(Code::kInternal, "");
  if (image) {
    request.template_name = row.name;
    snapshot = co_await snapshot_image(*image, std::move(request));
  } else {
    snapshot = fail(std::move(image).error());
  }
  --running_;
  (void)co_await shielded(parts_.pool.run([directory = job.directory]() -> Result<> {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    return {};
  }));
  (void)co_await shielded(trim_cache());
  co_return std::move(snapshot);
}

// The disk of a cell with nothing in it, above the layers of the image.
Task<Snapshot> TemplateJobs::snapshot_image(const BuiltImage& image, ImportRequest request) {
  Result<Snapshot> snapshot = fail(Code::kInternal, "");
  Snapshot row{.team_id = request.team_id,
               .template_name = request.template_name,
               .layers = image.layers,
               .limits = parts_.build_limits};
  const CellWork work = [&](const BuildCell& cell) {
    return store_result(parts_.snapshots.adopt(cell.id, row, request.snapshot), snapshot);
  };
  CO_TRY_DO(co_await factory_.look({}, work));
  co_return std::move(snapshot);
}

Task<BuiltImage> TemplateJobs::import_archive(Job& job, UploadPointer upload) {
  BuildLog& log = *job.log;
  log.note("reading the archive");
  CO_TRY(std::string directory, make_directory(job.directory));
  oci::FetchRequest request{.archive = upload->path(),
                            .directory = std::move(directory),
                            .max_blob_bytes = kMaxUploadBytes,
                            .on_line = [&log](std::string_view line) { log.note(line); }};
  CO_TRY(
      std::string layout,
      co_await with_deadline(kFetchTimeout, oci::fetch_image(parts_.reactor, std::move(request))));
  co_return co_await open_layout(job, std::move(layout));
}

Task<std::shared_ptr<BuildLog>> TemplateJobs::pull(TemplateRef ref, PullOptions options) {
  CO_TRY(const Template row, parts_.sandboxes.templates().find(ref.name, ref.team_id));
  if (row.builtin) {
    co_return co_await pull_builtin(row);
  }
  CO_TRY_DO(own(ref));
  CO_TRY_DO(check_free(row.name, row.team_id));
  const auto spec = Json::parse(row.spec);
  const auto parsed = spec ? parse_template_spec(*spec) : Result<TemplateSpec>{};
  if (!parsed || parsed->image.empty()) {
    co_return fail(
        Code::kFailedPrecondition,
        concat("template ", row.name, " has no image to pull; it was built or imported"));
  }
  CO_TRY(const std::string reference, oci::check_reference(parsed->image));
  co_return co_await begin(row, [this, reference, options = std::move(options)](Job& job) {
    return fetch(job, reference, options);
  });
}

// The node does the work and tells by events; the log belongs to a job without a task.
Task<std::shared_ptr<BuildLog>> TemplateJobs::pull_builtin(const Template& row) {
  auto job = std::make_shared<Job>();
  if (row.state == TemplateState::kReady) {
    job->log->note("it is here already");
    job->log->end({}, Json::object({{"type", "done"}, {"template_id", row.name}}));
    co_return job->log;
  }
  const auto known = jobs_.find(row.name);
  if (known != jobs_.end() && !known->second->log->ended()) {
    co_return known->second->log;
  }
  jobs_.insert_or_assign(row.name, job);
  auto begun = co_await with_deadline(kNodeTimeout, parts_.node.build_builtin(row.name));
  if (!begun) {
    jobs_.erase(row.name);
    co_return fail(std::move(begun).error());
  }
  co_return job->log;
}

void TemplateJobs::on_builtin_event(const node::Event& event) {
  auto found = jobs_.find(event.id);
  if (found == jobs_.end() || found->second->log->ended()) {
    found = jobs_.insert_or_assign(event.id, std::make_shared<Job>()).first;
  }
  BuildLog& log = *found->second->log;
  switch (event.kind) {
    case node::Event::Kind::kTemplateProgress:
      log.note(event.text);
      return;
    case node::Event::Kind::kTemplateReady:
      log.end({}, Json::object({{"type", "done"}, {"template_id", event.id}}));
      return;
    case node::Event::Kind::kTemplateFailed:
      log.end(
          fail(Code::kInternal, event.text),
          Json::object(
              {{"type", "error"}, {"code", "internal"}, {"message", to_valid_utf8(event.text)}}));
      return;
    case node::Event::Kind::kCellDied:
      return;
  }
}

}  // namespace atl::control
