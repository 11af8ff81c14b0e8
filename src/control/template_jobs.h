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
#include "control/dockerfile_build.h"
#include "control/layer_factory.h"
#include "control/scratch.h"
#include "control/snapshots.h"
#include "control/template_spec.h"
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
      : path_(std::move(path)), file_(std::move(file)), lease_(scratch, std::move(team_id)) {}
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  const std::string& path() const { return path_; }
  // kResourceExhausted when there is no room. The bytes must stay valid until it returns.
  Task<> append(io::OffloadPool& pool, std::string_view bytes);

 private:
  std::string path_;
  Fd file_;
  Scratch::Lease lease_;
  std::uint64_t size_ = 0;
};
using UploadPointer = std::shared_ptr<Upload>;  // shared by the request and the job's work

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
  // Of the job that runs, or of the last one since the start of this process.
  Result<std::shared_ptr<BuildLog>> log(std::string_view name) const;
  void cancel(std::string_view name);

  // Refused when there is no room for so many bytes.
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
  };
  using Work = std::function<Task<BuiltImage>(Job& job)>;

  Result<> check_free(std::string_view name) const;
  Result<> check_new(const TemplateRef& ref) const;
  Result<Template> own(const TemplateRef& ref) const;
  Task<Template> register_new(const TemplateRef& ref, std::string spec);
  Task<std::shared_ptr<BuildLog>> begin(Template row, Work work);
  Task<> run_job(std::string name, Work work);
  Task<> settle(TemplateRef ref, const Result<BuiltImage>& built);
  Task<> remove_unreferenced(std::vector<std::string> candidates);
  Task<> trim_cache();
  void on_builtin_event(const node::Event& event);

  Task<BuiltImage> fetch(Job& job, std::string reference, PullOptions options);
  Task<BuiltImage> open_layout(Job& job, std::string directory);
  Task<BuiltImage> run_dockerfile(Job& job, UploadPointer upload, BuildOptions options);
  Task<BuiltImage> find_base(Job& job, std::string reference, PullOptions options);
  Task<BuiltImage> import_archive(Job& job, UploadPointer upload);
  Task<Template> capture_held(TemplateRef ref, CaptureRequest request, const Snapshot& state);
  Task<Snapshot> snapshot_image(const BuiltImage& image, ImportRequest request);
  Task<BuiltImage> keep_state(Job& job, Snapshot state, oci::ImageConfig config);
  Task<std::shared_ptr<BuildLog>> pull_builtin(const Template& row);
  static Result<std::string> make_directory(const std::string& below);

  Parts parts_;
  LayerFactory factory_;
  Scope* scope_ = nullptr;
  std::map<std::string, std::shared_ptr<Job>, std::less<>> jobs_;  // shared with the running task
  std::size_t running_ = 0;
};

}  // namespace atl::control
