#include "control/preloaded.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/terminal_execution.h"
#include "control/transcript.h"

namespace atl::control {
namespace {

using State = PreloadReport::State;

// What the interpreter, its loader or its libraries read when they start and never again.
bool matters_at_the_start(std::string_view variable) {
  constexpr std::array<std::string_view, 8> kPrefixes{"PYTHON", "IPYTHON", "LD_",  "MALLOC_",
                                                      "GLIBC_", "LC_",     "LANG", "MPL"};
  constexpr std::array<std::string_view, 4> kNames{"HOME", "USER", "LOGNAME", "TZ"};
  return std::ranges::find(kNames, variable) != kNames.end() ||
         std::ranges::any_of(kPrefixes,
                             [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

StringMap what_matters_at_the_start(const StringMap& env) {
  StringMap out;
  for (const auto& [name, value] : env) {
    if (matters_at_the_start(name)) {
      out.emplace(name, value);
    }
  }
  return out;
}

// Some of its sandboxes are ready although nobody asked.
bool keeps_ready(const Template& value, const TemplateDefaults& defaults) {
  return defaults.pool ? defaults.pool->min_idle > 0 : value.name == kDefaultTemplate;
}

std::string shown(const Json& failure, std::string_view name) {
  const Json* field = failure.find(name);
  const auto* text = field == nullptr ? nullptr : field->as_string();
  return text == nullptr ? "" : to_valid_utf8(std::string_view{*text}.substr(0, kMaxShownBytes));
}

// Until the driver has imported what it could.
Task<std::vector<PreloadFailure>> wait_for_modules(ProcessStream& stream) {
  ChannelLines lines;
  for (;;) {
    CO_TRY(const auto event, co_await stream.next());
    if (std::holds_alternative<guest::ExitStatus>(event)) {
      co_return fail(Code::kFailedPrecondition, "the interpreter ended while it imported modules",
                     "process_ended");
    }
    const auto& output = std::get<guest::Output>(event);
    if (output.header.stream != guest::Stream::kChannel) {
      continue;
    }
    lines.append(output.bytes);
    while (const auto line = lines.next()) {
      const auto message = parse_channel_message(*line);
      const Json* list =
          message && message->op == "preloaded" ? message->body.find("failures") : nullptr;
      if (list == nullptr || list->as_array() == nullptr) {
        continue;
      }
      std::vector<PreloadFailure> failures;
      for (const Json& failure : *list->as_array()) {
        if (failures.size() < kMaxPreloadModules) {
          failures.push_back({shown(failure, "module"), shown(failure, "error")});
        }
      }
      co_return std::move(failures);
    }
  }
}

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

std::vector<std::string> words_of(const StringMap& env) {
  std::vector<std::string> words;
  for (const auto& [name, value] : env) {
    words.push_back(concat(name, "=", value));
  }
  return words;
}

}  // namespace

PreloadedKind preloaded_kind(const std::vector<std::string>& layers,
                             const TemplateDefaults& defaults) {
  return {.layers = layers,
          .user = defaults.user,
          .env = what_matters_at_the_start(defaults.env),
          .modules = defaults.preload};
}

PreloadedInterpreters::PreloadedInterpreters(LayerFactory::Parts parts,
                                             std::function<bool()> memory_is_short)
    : sandboxes_(parts.sandboxes), factory_(parts), memory_is_short_(std::move(memory_is_short)) {
  templates().on_changed(this, [this] { on_templates_changed(); });
  templates().on_used(this, [this](const Template& value) { want_for(value, true); });
}

PreloadedInterpreters::~PreloadedInterpreters() {
  templates().on_changed(this, {});
  templates().on_used(this, {});
}

PreloadedInterpreters::Image PreloadedInterpreters::find(const PreloadedKind& kind,
                                                         const StringMap& env) {
  if (what_matters_at_the_start(env) != kind.env) {
    return nullptr;
  }
  want(kind);
  const auto found = entries_.find(kind);
  return found == entries_.end() ? nullptr : found->second.image;
}

void PreloadedInterpreters::want(const PreloadedKind& kind) {
  if (const auto found = entries_.find(kind); found != entries_.end()) {
    found->second.last_used = ++uses_;
    return;
  }
  drop_beyond(kMaxPreloaded - 1, kMaxPreloadedTotalBytes, nullptr);
  Entry& entry = entries_[kind];
  entry.report.state = State::kMaking;
  entry.last_used = ++uses_;
  wanted_.push_back(kind);
  asked_.set();
}

PreloadReport PreloadedInterpreters::report(const PreloadedKind& kind) const {
  const auto found = entries_.find(kind);
  return found == entries_.end() ? PreloadReport{} : found->second.report;
}

// Of a template that names modules, the first sandbox begins it; of one that keeps sandboxes ready,
// the template itself.
void PreloadedInterpreters::want_for(const Template& value, bool used) {
  const TemplateDefaults& defaults = templates().defaults(value.name);
  if (value.state == TemplateState::kReady &&
      (used ? !defaults.preload.empty() : keeps_ready(value, defaults))) {
    want(preloaded_kind(value.layers, defaults));
  }
}

void PreloadedInterpreters::on_templates_changed() {
  std::set<std::pair<std::vector<std::string>, std::vector<std::string>>> current;
  for (const Template& value : templates().all()) {
    current.emplace(value.layers, templates().defaults(value.name).preload);
    want_for(value, false);
  }
  const auto is_old = [&](const PreloadedKind& kind) {
    return !current.contains({kind.layers, kind.modules});
  };
  std::erase_if(entries_, [&](const auto& each) { return is_old(each.first); });
  std::erase_if(wanted_, is_old);
}

std::uint64_t PreloadedInterpreters::total_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [kind, entry] : entries_) {
    bytes += entry.report.memory_bytes;
  }
  return bytes;
}

void PreloadedInterpreters::drop_beyond(std::size_t count, std::uint64_t bytes,
                                        const PreloadedKind* kept) {
  while (entries_.size() > count || total_bytes() > bytes) {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if ((kept == nullptr || it->first != *kept) &&
          (oldest == entries_.end() || it->second.last_used < oldest->second.last_used)) {
        oldest = it;
      }
    }
    if (oldest == entries_.end()) {
      return;
    }
    std::erase(wanted_, oldest->first);
    entries_.erase(oldest);
  }
}

// As long as there are images, the memory of the host is looked at now and then.
Task<> PreloadedInterpreters::wait_for_work() {
  while (wanted_.empty()) {
    asked_.clear();
    if (total_bytes() == 0) {
      CO_TRY_DO(co_await asked_.wait());
      continue;
    }
    auto waited = co_await with_deadline(kPressureInterval, wait_for(asked_));
    if (!waited && !is_deadline(waited.error())) {
      co_return std::move(waited);
    }
    if (!waited && memory_is_short_()) {
      const std::uint64_t bytes = total_bytes();
      drop_beyond(entries_.size(), bytes - 1, nullptr);
      LOG_INFO("memory is short: an interpreter is not kept ready any more",
               {"bytes", bytes - total_bytes()});
    }
  }
  co_return ok();
}

Task<> PreloadedInterpreters::run() {
  on_templates_changed();
  for (;;) {
    CO_TRY_DO(co_await wait_for_work());
    PreloadedKind kind = std::move(wanted_.front());
    wanted_.pop_front();
    CO_TRY_DO(co_await make(std::move(kind)));
  }
}

// One that cannot be made stays without an image, so nobody tries again. Fails when cancelled.
Task<> PreloadedInterpreters::make(PreloadedKind kind) {
  Entry entry;
  const CellWork work = [&kind, &entry](const BuildCell& cell) {
    return start_and_copy(cell, kind, entry);
  };
  auto made = co_await factory_.look(kind.layers, work);
  if (!made && made.error().code == Code::kCancelled) {
    co_return std::move(made);
  }
  if (!made) {
    entry.image = nullptr;
    entry.report = {.state = State::kFailed, .reason = made.error().message};
    LOG_INFO("no interpreter of this kind is kept ready", {"layer", kind.layers.front()},
             {"error", made.error()});
  } else {
    entry.report.state = State::kReady;
    entry.report.memory_bytes = entry.image->image.memory_bytes;
    LOG_INFO("an interpreter is kept ready", {"layer", kind.layers.front()},
             {"modules", kind.modules.size() - entry.report.failures.size()},
             {"bytes", entry.report.memory_bytes});
  }
  for (const PreloadFailure& failure : entry.report.failures) {
    LOG_WARN("a module of a template cannot be imported", {"layer", kind.layers.front()},
             {"module", failure.module}, {"error", failure.error});
  }
  if (const auto found = entries_.find(kind); found != entries_.end()) {
    entry.last_used = found->second.last_used;
    found->second = std::move(entry);
    drop_beyond(kMaxPreloaded, kMaxPreloadedTotalBytes, &kind);
  }
  co_return ok();
}

Task<> PreloadedInterpreters::start_and_copy(const BuildCell& cell, const PreloadedKind& kind,
                                             Entry& entry) {
  const auto language = find_language("python");
  const std::string id = "preloaded";
  auto env = interpreter_environment(*language);
  std::ranges::move(words_of(kind.env), std::back_inserter(env));
  CO_TRY(auto stream, co_await cell.guest.spawn({.process_id = id,
                                                 .argv = interpreter_command(*language),
                                                 .env = std::move(env),
                                                 .cwd = "/",
                                                 .user = kind.user,
                                                 .keep = true,
                                                 .channel = true}));
  CO_TRY_DO(co_await await_driver(*stream, *language));
  std::string names;
  for (const std::string& module : kind.modules) {
    names += concat(names.empty() ? "" : ",", module);
  }
  CO_TRY_DO(co_await stream->send_channel(concat("preload - ", names, "\n")));
  CO_TRY(entry.report.failures, co_await with_deadline(kPreloadTimeout, wait_for_modules(*stream)));
  stream.reset();
  CO_TRY(auto process, co_await cell.guest.get_process(id));
  CO_TRY(auto copied, co_await copy_interpreter(cell.guest, std::move(process), kMaxPreloadedBytes,
                                                CopyMemory::kShared));
  entry.image = std::make_shared<const CopiedInterpreter>(std::move(copied));
  co_return ok();
}

}  // namespace atl::control
