// Carrying out a Dockerfile: each RUN, COPY and ADD gives one layer, the rest changes the
// configuration.
//
// A layer depends on the instruction after substitution, environment, user, directory, the digests
// of copied files; step_layers.h finds it again by them. Only stages that the target needs are
// built. RUN has no network unless the request says so. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/build_log.h"
#include "control/step_layers.h"
#include "control/template_start.h"
#include "oci/context.h"
#include "oci/dockerfile.h"

namespace atl::control {

struct BuiltImage {
  std::vector<std::string> layers;  // topmost first; empty: nothing at all
  oci::ImageConfig config;
  TemplateStart start;
};

// An image that FROM or COPY --from names and that is no stage.
using FindImage = std::function<Task<BuiltImage>(std::string reference)>;

struct DockerfileRequest {
  std::shared_ptr<const oci::BuildContext> context;
  oci::Dockerfile file;
  std::map<std::string, std::string, std::less<>> arguments;
  std::string target;  // name or number of a stage; empty: the last
  bool use_cache = true;
  BuildNetwork run_network;
};

class DockerfileBuild {
 public:
  DockerfileBuild(LayerFactory& factory, BuildLog& log, FindImage find_image,
                  DockerfileRequest request)
      : factory_(factory),
        log_(log),
        layers_(factory,
                [&log](const std::string& layer) {
                  log.add(Json::object({{"type", "cached"}, {"layer", layer}}));
                }),
        find_image_(std::move(find_image)),
        request_(std::move(request)) {}

  Task<BuiltImage> run();

 private:
  struct Stage {
    BuiltImage image;
    std::map<std::string, std::string, std::less<>> arguments;
    std::vector<std::string> pending_directories;  // of WORKDIR, made with the next layer
    bool command_set = false;                      // in this stage
  };
  using Instruction = oci::Instruction;

  Result<std::size_t> find_target() const;
  Result<> read_global_arguments();
  void count_steps(std::size_t index);
  void log_step(int line, std::string_view text);
  std::optional<std::size_t> find_stage(std::string_view name, std::size_t before) const;
  Task<const BuiltImage*> build_stage(std::size_t index);
  Task<> start_stage(std::size_t index, Stage& stage);
  Task<> apply(Instruction instruction, std::size_t index, Stage& stage);
  Result<> configure(const Instruction& instruction, Stage& stage);
  Result<> set_pairs(const Instruction& instruction, Stage& stage,
                     std::map<std::string, std::string, std::less<>>& into);
  Result<> declare_argument(const Instruction& instruction, Stage& stage);
  Result<> change_directory(const std::string& path, Stage& stage);

  Task<> run_command(const Instruction& instruction, Stage& stage);
  Task<> copy_from_context(const Instruction& instruction, Stage& stage);
  Task<> copy_from_image(const Instruction& instruction, std::size_t index, Stage& stage);
  Task<BuiltImage> copy_source(const Instruction& instruction, std::size_t index);
  Task<TreeChanges> changes_of(const Instruction& instruction, const Stage& stage,
                               const BuildCell& cell);
  Task<> add_layer(std::vector<std::string> ingredients, Stage& stage, CellWork work,
                   BuildNetwork network = {});
  Task<> finish_stage(Stage& stage);

  Result<std::string> expand(std::string_view word, const Stage& stage) const;
  Result<std::vector<std::string>> expand_all(const std::vector<std::string>& words,
                                              const Stage& stage) const;
  Result<std::string> destination_of(const Instruction& instruction, const Stage& stage) const;

  LayerFactory& factory_;
  BuildLog& log_;
  StepLayers layers_;
  FindImage find_image_;
  DockerfileRequest request_;
  std::map<std::string, std::string, std::less<>> global_arguments_;
  std::map<std::size_t, BuiltImage> built_;
  std::size_t step_ = 0;
  std::size_t step_count_ = 0;
};

}  // namespace atl::control
