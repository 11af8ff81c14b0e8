#include "node/templates.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"

namespace atl::node {
namespace {

using State = TemplateInfo::State;

Result<std::string> find_or_build(const image::BuiltinTemplate& builtin,
                                  const std::string& cache_dir, const image::Progress& progress) {
  auto cached = image::find_cached(builtin, cache_dir);
  if (cached) {
    return cached;
  }
  LOG_INFO("building a template, this takes some minutes once", {"template", builtin.name},
           {"cache", cache_dir}, {"because", cached.error()});
  return image::build(builtin, cache_dir, progress);
}

}  // namespace

BuiltinTemplates::BuiltinTemplates(Parts parts) : parts_(std::move(parts)) {
  for (image::BuiltinTemplate& source : image::builtin_templates()) {
    const bool present = parts_.pool.has_layer(image::layer_id(source));
    builtins_.push_back({std::move(source), present ? State::kReady : State::kAbsent});
  }
}

Result<> BuiltinTemplates::make(const image::BuiltinTemplate& source,
                                const image::Progress& progress) {
  const std::string layer = image::layer_id(source);
  if (parts_.pool.has_layer(layer)) {
    return {};
  }
  TRY(const std::string archive, find_or_build(source, parts_.cache_dir, progress));
  TRY_DO(parts_.pool.add_layer(layer, [&](const std::string& directory) {
    return image::unpack(archive, directory, progress);
  }));
  LOG_INFO("template is in place", {"template", source.name}, {"layer", layer});
  return {};
}

Result<> BuiltinTemplates::seed(const image::Progress& progress) {
  if (!parts_.pool.has_layer(kEmptyLayer)) {
    TRY_DO(parts_.pool.add_layer(kEmptyLayer, [](const std::string&) { return Result<>{}; }));
  }
  const image::BuiltinTemplate source = image::default_template();
  TRY_DO(make(source, progress));
  const std::lock_guard lock{mutex_};
  for (Builtin& builtin : builtins_) {
    if (builtin.source.name == source.name) {
      builtin.state = State::kReady;
    }
  }
  return {};
}

std::vector<TemplateInfo> BuiltinTemplates::list() const {
  const std::lock_guard lock{mutex_};
  std::vector<TemplateInfo> infos;
  for (const Builtin& builtin : builtins_) {
    TemplateInfo& info = infos.emplace_back();
    info.name = builtin.source.name;
    info.state = builtin.state;
    if (builtin.state == State::kReady) {
      info.layers = {image::layer_id(builtin.source)};
    }
  }
  return infos;
}

bool BuiltinTemplates::busy() const {
  const std::lock_guard lock{mutex_};
  return std::ranges::any_of(builtins_,
                             [](const Builtin& b) { return b.state == State::kBuilding; });
}

Result<> BuiltinTemplates::build(const std::string& name) {
  const std::lock_guard lock{mutex_};
  const auto wanted = std::ranges::find_if(
      builtins_, [&](const Builtin& builtin) { return builtin.source.name == name; });
  if (wanted == builtins_.end()) {
    return fail(Code::kNotFound, concat("there is no builtin template \"", name, "\""));
  }
  if (wanted->state != State::kAbsent) {
    return {};
  }
  for (const Builtin& builtin : builtins_) {
    if (builtin.state == State::kBuilding) {
      return fail(Code::kUnavailable,
                  concat("template ", builtin.source.name, " is being made; one at a time"));
    }
  }
  wanted->state = State::kBuilding;
  // Detached: a build takes minutes and a stop must not (see busy()).
  std::thread{[this, source = wanted->source] { run(source); }}.detach();
  return {};
}

void BuiltinTemplates::run(const image::BuiltinTemplate& source) {
  std::string last;
  const auto made = make(source, [&](std::string_view step, double fraction) {
    std::string text{step};
    if (fraction >= 0) {
      text = concat(text, " (", static_cast<int>(fraction * 100), "%)");
    }
    if (text != last) {
      last = text;
      parts_.publish({Event::Kind::kTemplateProgress, source.name, std::move(text)});
    }
  });
  {
    const std::lock_guard lock{mutex_};
    for (Builtin& builtin : builtins_) {
      if (builtin.source.name == source.name) {
        builtin.state = made ? State::kReady : State::kAbsent;
      }
    }
  }
  if (!made) {
    LOG_ERROR("a template could not be made", {"template", source.name}, {"error", made.error()});
  }
  parts_.publish({made ? Event::Kind::kTemplateReady : Event::Kind::kTemplateFailed, source.name,
                  made ? "" : made.error().message});
}

}  // namespace atl::node
