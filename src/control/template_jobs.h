// Making templates: from a registry, from an archive, from a Dockerfile, and unmaking them.
//
// A job makes one template in the background and says what it does in its BuildLog. While a new one
// is being made its row is `creating`; a rebuild leaves the old layers in use until the new ones
// are there. A job that is cut short by a crash leaves a row that the next start marks as failed,
// and layers that nothing refers to, which collect() removes. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/build_log.h"
#include "control/build_steps.h"
#include "control/dockerfile_build.h"
#include "control/layer_factory.h"
#include "control/scratch.h"
#include "control/snapshots.h"
#include "control/template_spec.h"
#include "control/template_starts.h"
#include "oci/fetch.h"

namespace atl::control {

struct TemplateRef {
  std::string team_id = store::kDefaultTeam;
  std::string name;
};

struct PullOptions {
  std::optional<oci::RegistryLogin> login;
  bool verify_tls = true;
};

struct BuildOptions {
  std::string dockerfile = "Dockerfile";  // its path in the context
  std::map<std::string, std::string, std::less<>> arguments;
  std::string target;
  std::string network = "none";
  bool use_cache = true;
  PullOptions pull;
};

// What a template that is made from a state says about itself; the rest is as in its template.
struct CaptureRequest {
  StateRef source;
  std::map<std::string, Json> overrides;  // members of the spec
};

struct ImportRequest {
  std::string team_id = store::kDefaultTeam;
  std::string template_name;
  SnapshotRequest snapshot;
};

// A file of a client on its way in; it goes with the last who has it.
class Upload {
 public:
  Upload(std::string path, Fd file, Scratch& scratch, std::string team_id)
      : path_(std::move(path)), file_(std::move(file)) {
    lease_.emplace(scratch, std::move(team_id));
  }
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  const std::string& path() const { return path_; }
  // kResourceExhausted when there is no room. The bytes must stay valid until it returns.
  Task<> append(io::OffloadPool& pool, std::string_view bytes);
  // Others may have it now. REQUIRES: nothing is appended any more.
  void give_back_room() { lease_.reset(); }
  void remove_file();  // blocks

 private:
  std::string path_;
  Fd file_;
  std::optional<Scratch::Lease> lease_;
  std::uint64_t size_ = 0;
};
using UploadPointer = std::shared_ptr<Upload>;  // shared by the request and the job's work

// A build by steps (build_steps.h).
struct StepsBuild {
  std::string from;            // a template that the team may use, or an image
  bool from_template = false;  // which of the two
  PullOptions pull;
  std::vector<BuildStep> steps;
  bool force = false;                                       // no layer is taken from the cache
  std::optional<std::string> start_command;                 // none: that of the template below
  std::optional<std::string> ready_command;                 // the same
  std::map<std::string, UploadPointer, std::less<>> files;  // of COPY, by hash
};
// How it ended, and the step at which; the row of the template tells the same already.
using BuildFinished = std::function<Task<>(Result<> outcome, std::string step)>;

class TemplateJobs {
 public:
  struct Parts {
    io::Reactor& reactor;
    io::OffloadPool& pool;
    node::Node& node;
    Sandboxes& sandboxes;
    Snapshots& snapshots;
    Scratch& scratch;
    StoreAccess store;
    const WallClock& clock;
    store::Limits build_limits;
    std::string directory;  // of ours alone, for archives and contexts; emptied at the start
  };
  explicit TemplateJobs(Parts parts);
  TemplateJobs(const TemplateJobs&) = delete;
  TemplateJobs& operator=(const TemplateJobs&) = delete;

  // Empties the directory and removes layers that nothing refers to. Once, after sandboxes.start().
  Task<> start();
  // Owns the jobs; until cancelled.
  Task<> run();

  // Registers a template and begins to fetch its image. kAlreadyExists.
  Task<Template> create(TemplateRef ref, Json spec, PullOptions options);
  Task<Template> update(TemplateRef ref, Json spec);
  Task<> remove(TemplateRef ref);

  // Each begins a job, or fails at once. kAborted (reason conflict) when one runs for this
  // template. Fetches the image again, or makes a builtin that is absent.
  Task<std::shared_ptr<BuildLog>> pull(TemplateRef ref, PullOptions options);
  // The template is made when there is none.
  Task<std::shared_ptr<BuildLog>> build(TemplateRef ref, UploadPointer upload,
                                        BuildOptions options);
  Task<std::shared_ptr<BuildLog>> import(TemplateRef ref, UploadPointer upload);
  // The template must be new. `finished` is waited for before the log ends.
  Task<std::shared_ptr<BuildLog>> build_steps(TemplateRef ref, Json spec, StepsBuild request,
                                              BuildFinished finished);
  // What would be refused whatever the upload is.
  Result<> check_build(const TemplateRef& ref, const BuildOptions& options) const;
  Result<> check_import(const TemplateRef& ref) const;
  Result<> check_import_snapshot(const ImportRequest& request) const;
  // Registers a template whose sandboxes begin as this state is now, and begins to make it. Its
  // layers are those of the state and one above, shared and not copied. kAlreadyExists.
  Task<Template> capture(TemplateRef ref, CaptureRequest request);
  // An image as a snapshot: what is claimed from it begins with its files, with the settings of the
  // template that `request` names.
  Task<Snapshot> import_snapshot(UploadPointer upload, ImportRequest request);
  // Of the job that runs, or of the last one since the start of this process. Old ones go when all
  // together are large.
  Result<std::shared_ptr<BuildLog>> log(std::string_view name) const;
  void cancel(std::string_view name);
  // Whether a job of this team could begin now; kUnavailable.
  Result<> check_room(std::string_view team_id) const;

  // Refused when there is no room for so many bytes, with reason no_space.
  Result<UploadPointer> begin_upload(std::string team_id, std::uint64_t bytes);
  Task<> append_upload(Upload& upload, std::string_view bytes) {
    return upload.append(parts_.pool, bytes);
  }

 private:
  struct Job {
    std::shared_ptr<BuildLog> log = std::make_shared<BuildLog>();
    std::unique_ptr<CancelState> cancel;  // while it runs
    std::string directory;                // private, removed with the job
    std::string team_id;                  // whose templates it may use
    std::string step;                     // of a build by steps, where it is
    BuildFinished finished;
    UnixMillis ended_at = 0;
  };
  using Work = std::function<Task<BuiltImage>(Job& job)>;

  Result<> check_idle(std::string_view name) const;
  Result<> check_free(std::string_view name, std::string_view team_id) const;
  Result<> check_new(const TemplateRef& ref) const;
  std::string start_state(std::string_view name) const;
  Result<Template> own(const TemplateRef& ref) const;
  Task<Template> register_new(const TemplateRef& ref, std::string spec);
  Task<std::shared_ptr<BuildLog>> begin(Template row, Work work, BuildFinished finished = {});
  Task<> run_job(std::string name, Work work);
  Task<> settle(TemplateRef ref, const Result<BuiltImage>& built);
  Task<> record_outcome(TemplateRef ref, const Result<BuiltImage>& built);
  void drop_old_logs();
  void discard(std::unique_ptr<Upload> upload);
  Task<> remove_file(std::unique_ptr<Upload> upload);
  Task<> remove_unreferenced(std::vector<std::string> candidates);
  Task<> trim_cache();
  void on_builtin_event(const node::Event& event);

  Task<BuiltImage> fetch(Job& job, std::string reference, PullOptions options);
  Task<BuiltImage> open_layout(Job& job, std::string directory);
  Task<BuiltImage> run_dockerfile(Job& job, UploadPointer upload, BuildOptions options);
  Task<BuiltImage> run_steps(Job& job, Template row, StepsBuild request);
  Task<BuiltImage> finish_steps(BuiltImage image, const Template& row, const StepsBuild& request,
                                StepLog& log);
  Task<BuiltImage> find_base(Job& job, std::string reference, PullOptions options);
  Task<BuiltImage> import_archive(Job& job, UploadPointer upload);
  Task<Template> capture_held(TemplateRef ref, CaptureRequest request, const Snapshot& state);
  Task<Snapshot> snapshot_image(const BuiltImage& image, ImportRequest request);
  Task<BuiltImage> keep_state(Job& job, Snapshot state, oci::ImageConfig config);
  Task<std::shared_ptr<BuildLog>> pull_builtin(const Template& row);
  static Result<std::string> make_directory(const std::string& below);

  Parts parts_;
  LayerFactory factory_;
  TemplateStarts starts_;
  Scope* scope_ = nullptr;
  std::map<std::string, std::shared_ptr<Job>, std::less<>> jobs_;  // shared with the running task
  std::size_t running_ = 0;
};

}  // namespace atl::control
