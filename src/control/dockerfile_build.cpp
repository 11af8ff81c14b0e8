#include "control/dockerfile_build.h"

#include <algorithm>

#include "base/strings.h"
#include "control/limits.h"
#include "oci/words.h"

namespace atl::control {
namespace {

using oci::Verb;

std::unexpected<Error> refuse(std::string what) {
  return fail(Code::kInvalidArgument, std::move(what), "dockerfile");
}

// All outlive it.
Task<> work_below(const BuildCell& cell, const std::vector<std::string>& directories,
                  const CellWork& work) {
  for (const std::string& directory : directories) {
    CO_TRY_DO(co_await cell.guest.make_directory({.path = directory, .make_parents = true}));
  }
  co_return co_await work(cell);
}

}  // namespace

Result<std::size_t> DockerfileBuild::find_target() const {
  if (request_.target.empty()) {
    return request_.file.stages.size() - 1;
  }
  const auto found = find_stage(request_.target, request_.file.stages.size());
  if (!found) {
    return refuse(concat("the Dockerfile has no stage \"", request_.target, "\""));
  }
  return *found;
}

std::optional<std::size_t> DockerfileBuild::find_stage(std::string_view name,
                                                       std::size_t before) const {
  for (std::size_t i = before; i-- > 0;) {
    if (!request_.file.stages[i].name.empty() && request_.file.stages[i].name == to_lower(name)) {
      return i;
    }
  }
  const auto number = parse_u64(name);
  return number && *number < before ? std::optional{static_cast<std::size_t>(*number)}
                                    : std::nullopt;
}

Result<> DockerfileBuild::read_global_arguments() {
  for (const Instruction& instruction : request_.file.global_arguments) {
    Stage scope;
    scope.arguments = global_arguments_;
    TRY_DO(declare_argument(instruction, scope));
    global_arguments_ = std::move(scope.arguments);
  }
  return {};
}

// Steps of this stage and of every stage it needs, for the numbers people see.
void DockerfileBuild::count_steps(std::size_t index) {
  std::vector<std::size_t> open{index};
  std::vector<bool> seen(request_.file.stages.size());
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    if (seen[at]) {
      continue;
    }
    seen[at] = true;
    const oci::Stage& stage = request_.file.stages[at];
    step_count_ += stage.instructions.size() + 1;
    if (const auto base = find_stage(stage.base, at)) {
      open.push_back(*base);
    }
    for (const Instruction& instruction : stage.instructions) {
      const auto from = instruction.flags.find("from");
      if (from != instruction.flags.end()) {
        if (const auto source = find_stage(from->second, at)) {
          open.push_back(*source);
        }
      }
    }
  }
}

Task<BuiltImage> DockerfileBuild::run() {
  CO_TRY(const std::size_t target, find_target());
  CO_TRY_DO(read_global_arguments());
  count_steps(target);
  CO_TRY(const BuiltImage* image, co_await build_stage(target));
  if (image->layers.empty()) {
    co_return refuse("the result is empty: FROM scratch without COPY or ADD");
  }
  for (const auto& [name, value] : request_.arguments) {
    const auto declares = [&](const Instruction& instruction) {
      return instruction.verb == Verb::kArg && !instruction.words.empty() &&
             instruction.words[0].substr(0, instruction.words[0].find('=')) == name;
    };
    const bool used = std::ranges::any_of(request_.file.global_arguments, declares) ||
                      std::ranges::any_of(request_.file.stages, [&](const oci::Stage& stage) {
                        return std::ranges::any_of(stage.instructions, declares);
                      });
    if (!used) {
      log_.note(concat("build argument ", name, " is not used: no ARG declares it"));
    }
  }
  co_return *image;
}

Task<const BuiltImage*> DockerfileBuild::build_stage(std::size_t index) {
  if (const auto done = built_.find(index); done != built_.end()) {
    co_return &done->second;
  }
  const oci::Stage& source = request_.file.stages[index];
  Stage stage;
  if (auto started = co_await start_stage(index, stage); !started) {
    co_return fail(oci::at_line(source.line, std::move(started).error()));
  }
  for (const Instruction& instruction : source.instructions) {
    log_step(instruction.line, instruction.display());
    auto applied = co_await apply(instruction, index, stage);
    if (!applied) {
      Error error = std::move(applied).error();
      if (error.code == Code::kCancelled) {
        co_return fail(std::move(error));
      }
      co_return fail(oci::at_line(instruction.line, std::move(error)));
    }
  }
  CO_TRY_DO(co_await finish_stage(stage));
  co_return &built_.emplace(index, std::move(stage.image)).first->second;
}

Task<> DockerfileBuild::start_stage(std::size_t index, Stage& stage) {
  const oci::Stage& source = request_.file.stages[index];
  Stage globals;
  globals.arguments = global_arguments_;
  CO_TRY(const std::string base, expand(source.base, globals));
  CO_TRY(const std::string platform, expand(source.platform, globals));
  if (!platform.empty() && platform != concat("linux/", oci::machine_architecture())) {
    co_return refuse(concat("--platform=", platform, " cannot run here; this machine is linux/",
                            oci::machine_architecture()));
  }
  const auto earlier = find_stage(base, index);
  if (earlier) {
    CO_TRY(const BuiltImage* image, co_await build_stage(*earlier));
    stage.image = *image;
  }
  log_step(source.line, concat("FROM ", base));
  if (!earlier && base != "scratch") {
    CO_TRY(stage.image, co_await find_image_(base));
  }
  co_return ok();
}

void DockerfileBuild::log_step(int line, std::string_view text) {
  log_.add(Json::object({{"type", "step"},
                         {"step", ++step_},
                         {"total", step_count_},
                         {"line", line},
                         {"text", text}}));
}

Task<> DockerfileBuild::apply(Instruction instruction, std::size_t index, Stage& stage) {
  switch (instruction.verb) {
    case Verb::kRun:
      co_return co_await run_command(instruction, stage);
    case Verb::kCopy:
    case Verb::kAdd:
      if (instruction.flags.contains("from")) {
        co_return co_await copy_from_image(instruction, index, stage);
      }
      co_return co_await copy_from_context(instruction, stage);
    case Verb::kIgnored:
      log_.note(concat(instruction.keyword, " has no effect here"));
      co_return ok();
    default:
      co_return configure(instruction, stage);
  }
}

Task<> DockerfileBuild::add_layer(std::vector<std::string> ingredients, Stage& stage, CellWork work,
                                  BuildNetwork network) {
  const std::vector<std::string> directories = std::move(stage.pending_directories);
  stage.pending_directories.clear();
  ingredients.emplace_back("directories");
  ingredients.insert(ingredients.end(), directories.begin(), directories.end());
  const CellWork whole = [&](const BuildCell& cell) { return work_below(cell, directories, work); };
  NewLayer layer{std::move(ingredients), request_.use_cache, std::move(network)};
  co_return co_await layers_.add(std::move(layer), stage.image.layers, whole);
}

// A WORKDIR at the end of a stage still makes its directory.
Task<> DockerfileBuild::finish_stage(Stage& stage) {
  if (stage.pending_directories.empty()) {
    co_return ok();
  }
  co_return co_await add_layer({"WORKDIR"}, stage,
                               [](const BuildCell&) -> Task<> { co_return ok(); });
}

}  // namespace atl::control
