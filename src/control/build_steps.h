// Carrying out a list of steps: COPY, RUN, WORKDIR, USER, ENV over an image or a template.
//
// Unlike a Dockerfile the steps are for people who work in a sandbox: commands run in a login shell
// as the user at hand, who is `user` (made when missing, may use sudo without a password, home
// /home/user) until a step says otherwise; files that are copied are that user's. Every COPY has an
// archive of its own. What user, directory and environment are at the end become the defaults of
// sandboxes. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/dockerfile_build.h"
#include "control/step_layers.h"
#include "control/step_log.h"

namespace atl::control {

struct BuildStep {
  enum class Kind : std::uint8_t { kCopy, kRun, kWorkdir, kUser, kEnv };
  Kind kind = Kind::kRun;
  std::vector<std::string> arguments;
  bool force = false;      // made anew, and all after it
  std::string files_hash;  // of kCopy
  std::string display() const;
};
// "RUN" -> kRun, also ADD and ARG; kInvalidArgument for others, and for arguments that do not fit.
Result<BuildStep> make_step(std::string_view type, std::vector<std::string> arguments);

struct StepsRequest {
  FindImage find_base;
  std::string base_name;  // for the log
  std::vector<BuildStep> steps;
  bool force = false;
  bool from_template = false;  // which needs nothing to be installed
  BuildNetwork network;
  std::string directory;  // for what archives have in them
  // By hash. kNotFound: it was not uploaded.
  std::function<Result<std::string>(const std::string& hash)> archive_path;
};

class BuildSteps {
 public:
  BuildSteps(LayerFactory& factory, StepLog& log, StepsRequest request);
  Task<BuiltImage> run();

 private:
  Task<> begin();
  Task<> choose_shell(const BuildCell& cell);
  Task<> prepare(const BuildCell& cell);
  Task<> add_tools(const BuildCell& cell);
  Task<> apply(const BuildStep& step);
  Task<> copy(const BuildStep& step);
  Task<> copy_files(const BuildCell& cell, const BuildStep& step, CopyWork work,
                    std::vector<std::string> roots);
  Task<> run_command(const BuildStep& step);
  Task<> run_logged(const BuildCell& cell, guest::SpawnRequest request);
  Task<> change_directory(const BuildStep& step);
  Task<> make_workdir(const BuildCell& cell, std::string path);
  Task<> change_user(const BuildStep& step);
  Task<> make_user(const BuildCell& cell, std::string name);
  Task<> set_environment(const BuildStep& step);
  Task<> add_layer(std::vector<std::string> ingredients, CellWork work, BuildNetwork network = {});
  Task<std::shared_ptr<const oci::BuildContext>> open_context(std::string hash);
  std::string absolute(std::string_view path) const;
  std::string expand(std::string_view text) const;
  std::vector<std::string> environment() const;
  std::string prefix() const;

  LayerFactory& factory_;
  StepLog& log_;
  StepsRequest request_;
  StepLayers layers_;
  BuiltImage image_;
  bool use_cache_ = true;
  bool tools_failed_ = false;  // to be installed; the image does without
  std::map<std::string, std::shared_ptr<const oci::BuildContext>, std::less<>> contexts_;
};

}  // namespace atl::control
