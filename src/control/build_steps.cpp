#include "control/build_steps.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "control/limits.h"
#include "control/template_spec.h"

namespace atl::control {
namespace {

using Kind = BuildStep::Kind;

struct StepType {
  std::string_view name;
  Kind kind;
  std::size_t least;
  std::size_t most;
};
constexpr std::size_t kMaxPairs = 512;
constexpr std::array kTypes{
    StepType{"COPY", Kind::kCopy, 2, 4},       StepType{"ADD", Kind::kCopy, 2, 4},
    StepType{"RUN", Kind::kRun, 1, 2},         StepType{"WORKDIR", Kind::kWorkdir, 1, 1},
    StepType{"USER", Kind::kUser, 1, 1},       StepType{"ENV", Kind::kEnv, 2, kMaxPairs},
    StepType{"ARG", Kind::kEnv, 2, kMaxPairs},
};

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

Result<BuildStep> make_step(std::string_view type, std::vector<std::string> arguments) {
  const auto* found = std::ranges::find(kTypes, type, &StepType::name);
  if (found == kTypes.end()) {
    return fail(Code::kInvalidArgument,
                concat("a step of type \"", to_valid_utf8(type),
                       "\" is not known; there are COPY, ADD, RUN, WORKDIR, USER, ENV and ARG"));
  }
  if (arguments.size() < found->least || arguments.size() > found->most ||
      (found->kind == Kind::kEnv && arguments.size() % 2 != 0)) {
    return fail(Code::kInvalidArgument,
                concat("a step of type ", type, " cannot have ", arguments.size(), " arguments"));
  }
  return BuildStep{.kind = found->kind, .arguments = std::move(arguments)};
}

std::string BuildStep::display() const {
  std::string text{std::ranges::find(kTypes, kind, &StepType::kind)->name};
  for (std::size_t i = 0; i < arguments.size() && (kind != Kind::kRun || i < 1); ++i) {
    text += concat(" ", arguments[i]);
  }
  return text;
}

BuildSteps::BuildSteps(LayerFactory& factory, StepLog& log, StepsRequest request)
    : factory_(factory),
      log_(log),
      request_(std::move(request)),
      layers_(factory,
              [this](const std::string&) { log_.add("info", concat(prefix(), " cached")); }),
      use_cache_(!request_.force) {}

std::string BuildSteps::prefix() const {
  return log_.step() == "base" ? "[base]"
                               : concat("[builder ", log_.step(), "/", request_.steps.size(), "]");
}

Task<BuiltImage> BuildSteps::run() {
  CO_TRY_DO(co_await begin());
  for (std::size_t i = 0; i < request_.steps.size(); ++i) {
    const BuildStep& step = request_.steps[i];
    log_.begin(std::to_string(i + 1));
    log_.add("info", concat(prefix(), " ", step.display()));
    use_cache_ = use_cache_ && !step.force;
    CO_TRY_DO(co_await apply(step));
  }
  co_return std::move(image_);
}

// The image, with what every template has.
Task<> BuildSteps::begin() {
  log_.begin("base");
  log_.add("info", concat("[base] FROM ", request_.base_name));
  CO_TRY(image_, co_await request_.find_base(request_.base_name));
  if (!image_.start.shell.empty()) {
    co_return ok();  // steps have made it
  }
  for (const char* of_somebody : {"HOME", "USER", "LOGNAME", "SHELL"}) {
    image_.config.env.erase(of_somebody);
  }
  CO_TRY_DO(co_await factory_.look(image_.layers,
                                   [this](const BuildCell& cell) { return choose_shell(cell); }));
  const CellWork work = [this](const BuildCell& cell) { return prepare(cell); };
  auto prepared = co_await add_layer({"prepare", "1", image_.start.shell}, work, request_.network);
  if (!prepared && tools_failed_) {
    // Another layer: the next build, whoever's, tries to install them again.
    prepared = co_await add_layer({"prepare without tools", "1", image_.start.shell}, work);
  }
  CO_TRY_DO(std::move(prepared));
  image_.config.user = kPlatformUser;
  image_.config.working_dir = concat("/home/", kPlatformUser);
  co_return ok();
}

Task<> BuildSteps::choose_shell(const BuildCell& cell) {
  const auto bash = co_await cell.guest.stat({.path = "/bin/bash"});
  image_.start.shell = bash ? "/bin/bash" : "/bin/sh";
  co_return ok();
}

Task<> BuildSteps::apply(const BuildStep& step) {
  switch (step.kind) {
    case Kind::kCopy:
      return copy(step);
    case Kind::kRun:
      return run_command(step);
    case Kind::kWorkdir:
      return change_directory(step);
    case Kind::kUser:
      return change_user(step);
    case Kind::kEnv:
      break;
  }
  return set_environment(step);
}

Task<> BuildSteps::add_layer(std::vector<std::string> ingredients, CellWork work,
                             BuildNetwork network) {
  NewLayer layer{std::move(ingredients), use_cache_, std::move(network)};
  return layers_.add(std::move(layer), image_.layers, std::move(work));
}

// $NAME and ${NAME}; everything else is as it is.
std::string BuildSteps::expand(std::string_view text) const {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '$') {
      out += text[at++];
      continue;
    }
    const bool braces = text.substr(at + 1).starts_with('{');
    const std::size_t begin = at + (braces ? 2 : 1);
    std::size_t end = begin;
    while (end < text.size() && is_name_character(text[end])) {
      ++end;
    }
    const bool closed = !braces || text.substr(end).starts_with('}');
    if (end == begin || !closed) {
      out += text[at++];
      continue;
    }
    if (const auto found = image_.config.env.find(text.substr(begin, end - begin));
        found != image_.config.env.end()) {
      out += found->second;
    }
    at = end + (braces ? 1 : 0);
  }
  return out;
}

Task<> BuildSteps::set_environment(const BuildStep& step) {
  for (std::size_t i = 0; i < step.arguments.size(); i += 2) {
    // One after the other, as a shell would.
    image_.config.env.insert_or_assign(step.arguments[i], expand(step.arguments[i + 1]));
  }
  co_return validate_env({image_.config.env.begin(), image_.config.env.end()}, "environment");
}

std::vector<std::string> BuildSteps::environment() const {
  std::vector<std::string> out;
  out.reserve(image_.config.env.size());
  for (const auto& [name, value] : image_.config.env) {
    out.push_back(concat(name, "=", value));
  }
  return out;
}

std::string BuildSteps::absolute(std::string_view path) const {
  const std::string home = image_.config.user == "root" || image_.config.user == "0"
                               ? "/root"
                               : concat("/home/", image_.config.user);
  if (path == "~" || path.starts_with("~/")) {
    return join_path(home, path == "~" ? "." : path.substr(2));
  }
  return join_path(image_.config.working_dir.empty() ? home : image_.config.working_dir, path);
}

Task<> BuildSteps::run_command(const BuildStep& step) {
  const std::string& command = step.arguments[0];
  guest::SpawnRequest request{.process_id = "run",
                              .argv = {image_.start.shell, "-l", "-c", command},
                              .env = environment(),
                              .cwd = image_.config.working_dir,
                              .user = step.arguments.size() > 1 && !step.arguments[1].empty()
                                          ? step.arguments[1]
                                          : image_.config.user,
                              .timeout_ms = kMaxRunStepMs};
  CO_TRY_DO(guest::validate(request));
  std::vector<std::string> ingredients{"run step", request.user, request.cwd, request.argv[0],
                                       command};
  ingredients.insert(ingredients.end(), request.env.begin(), request.env.end());
  const CellWork work = [this, request](const BuildCell& cell) {
    return run_logged(cell, request);
  };
  auto made = co_await add_layer(std::move(ingredients), work, request_.network);
  if (!made && made.error().code != Code::kCancelled) {
    Error error = std::move(made).error();
    error.message = concat("failed to run command '", to_valid_utf8(command), "': ", error.message);
    co_return fail(std::move(error));
  }
  co_return std::move(made);
}

Task<> BuildSteps::run_logged(const BuildCell& cell, guest::SpawnRequest request) {
  const std::string before = prefix();
  auto done = co_await run_in_build(
      cell, std::move(request), "",
      [this, &before](const guest::Output& output) { log_.output(before, output); });
  log_.end_output(before);
  co_return std::move(done);
}

Task<std::shared_ptr<const oci::BuildContext>> BuildSteps::open_context(std::string hash) {
  if (const auto known = contexts_.find(hash); known != contexts_.end()) {
    co_return known->second;
  }
  CO_TRY(const std::string path, request_.archive_path(hash));
  const std::string& directory = request_.directory;
  CO_TRY(auto context,
         co_await factory_.pool().run([&]() -> Result<std::shared_ptr<oci::BuildContext>> {
           const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
           if (!fd) {
             return fail_errno("opening the files of a step");
           }
           return oci::BuildContext::open(fd.get(), directory, {.unpacked_bytes = kMaxUploadBytes});
         }));
  contexts_.emplace(hash, context);
  co_return std::shared_ptr<const oci::BuildContext>{std::move(context)};
}

}  // namespace atl::control
