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

constexpr std::size_t kMaxPreloadedOfTeam = 16;
// Modules of a team's template: meanwhile others wait.
constexpr Duration kTeamPreloadTimeout = std::chrono::seconds{30};
// What failed for reasons of the host is tried again.
constexpr Duration kFirstPause = std::chrono::seconds{1};
constexpr Duration kLastPause = std::chrono::minutes{5};
constexpr std::size_t kMaxAttempts = 10;
constexpr Duration kNotReadyPause = std::chrono::milliseconds{200};

bool may_pass(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kResourceExhausted;
}

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
    : sandboxes_(parts.sandboxes),
      factory_(parts),
      memory_is_short_(std::move(memory_is_short)),
      ledger_(kMaxPreloadedTotalBytes, kMaxPreloadedTotalBytes / 2) {
  templates().on_changed(this, [this] { on_templates_changed(); });
  templates().on_used(this, [this](const Template& value) { want_for(value, true); });
}

PreloadedInterpreters::~PreloadedInterpreters() {
  templates().on_changed(this, {});
  templates().on_used(this, {});
}

PreloadedInterpreters::Image PreloadedInterpreters::find(const PreloadedKind& kind,
                                                         const StringMap& env,
                                                         const std::string& sandbox_id) {
  if (what_matters_at_the_start(env) != kind.env) {
    return nullptr;
  }
  want(kind);
  const auto found = entries_.find(kind);
  if (found == entries_.end() || found->second.image == nullptr) {
    return nullptr;
  }
  ledger_.note_user(found->second.image.get(), sandbox_id);
  return found->second.image;
}

// None: no template is of this kind (any more).
std::optional<std::string> PreloadedInterpreters::team_of(const PreloadedKind& kind) const {
  std::optional<std::string> team;
  sandboxes_.templates().each_ready([&](const Template& value, const TemplateDefaults& defaults) {
    if (value.layers != kind.layers || defaults.preload != kind.modules ||
        what_matters_at_the_start(defaults.env) != kind.env || (team && !value.builtin)) {
      return;
    }
    team = value.builtin ? "" : value.team_id;
  });
  return team;
}

void PreloadedInterpreters::want(const PreloadedKind& kind) {
  if (const auto found = entries_.find(kind); found != entries_.end()) {
    found->second.last_used = ++uses_;
    return;
  }
  const auto team = team_of(kind);
  if (!team) {
    return;
  }
  const auto is_own = [&](const PreloadedKind&, const Entry& each) { return each.team == *team; };
  const auto own = std::ranges::count_if(
      entries_, [&](const auto& each) { return is_own(each.first, each.second); });
  if (!team->empty() && static_cast<std::size_t>(own) >= kMaxPreloadedOfTeam) {
    drop_one(is_own);
  } else if (entries_.size() >= kMaxPreloaded) {
    drop_one([](const PreloadedKind&, const Entry&) { return true; });
  }
  Entry& entry = entries_[kind];
  entry.report.state = State::kMaking;
  entry.last_used = ++uses_;
  entry.team = *team;
  wanted_.push(kind, *team);
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
  wanted_.erase_if(is_old);
}

bool PreloadedInterpreters::has_images() const {
  return std::ranges::any_of(entries_, [](const auto& each) { return !!each.second.image; });
}

bool PreloadedInterpreters::drop_one(
    const std::function<bool(const PreloadedKind&, const Entry&)>& may_go) {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (may_go(it->first, it->second) &&
        (oldest == entries_.end() || it->second.last_used < oldest->second.last_used)) {
      oldest = it;
    }
  }
  if (oldest == entries_.end()) {
    return false;
  }
  wanted_.erase_if([&](const PreloadedKind& kind) { return kind == oldest->first; });
  entries_.erase(oldest);
  return true;
}

bool PreloadedInterpreters::makes_room(const PreloadedKind& kind, const Entry& entry,
                                       std::uint64_t bytes) {
  ledger_.sweep(
      [this](const std::string& id) { return sandboxes_.get_of_any_team(id).has_value(); });
  while (!ledger_.has_room(entry.team, bytes)) {
    const bool own = !ledger_.team_has_room(entry.team, bytes);
    // One that sandboxes have goes on taking memory when it is dropped.
    const bool dropped = drop_one([&](const PreloadedKind& each, const Entry& other) {
      return other.image != nullptr && each != kind && !ledger_.in_use(other.image.get()) &&
             (!own || other.team == entry.team);
    });
    if (!dropped) {
      return false;
    }
  }
  return true;
}

Task<> PreloadedInterpreters::wait_until(Instant next) {
  if (next == Instant::max()) {
    co_return co_await asked_.wait();
  }
  const Duration pause = std::max<Duration>(next - factory_.reactor().now(), kNotReadyPause);
  auto waited = co_await with_deadline(pause, wait_for(asked_));
  if (!waited && is_deadline(waited.error())) {
    co_return ok();
  }
  co_return std::move(waited);
}

// As long as there are images, the memory of the host is looked at now and then. None is made while
// it is short, nor while there is no node.
Task<> PreloadedInterpreters::run() {
  on_templates_changed();
  for (;;) {
    asked_.clear();
    const Instant now = factory_.reactor().now();
    Instant next = has_images() ? now + kPressureInterval : Instant::max();
    const bool is_short = (has_images() || !wanted_.empty()) && memory_is_short_();
    if (is_short) {
      next = now + kPressureInterval;
      const bool dropped = drop_one([this](const PreloadedKind&, const Entry& entry) {
        return entry.image != nullptr && !ledger_.in_use(entry.image.get());
      });
      if (dropped) {
        LOG_INFO("memory is short: an interpreter is not kept ready any more");
      }
    } else if (!wanted_.empty() && !sandboxes_.ready()) {
      next = now + kNotReadyPause;
    } else if (auto wanted = wanted_.pop(now, next)) {
      CO_TRY_DO(co_await make(std::move(wanted->first), std::move(wanted->second)));
      continue;
    }
    CO_TRY_DO(co_await wait_until(next));
  }
}

void PreloadedInterpreters::try_again(const PreloadedKind& kind, Entry& entry, const Error& error) {
  Duration pause = kFirstPause;
  for (std::size_t i = 0; i < entry.attempts && pause < kLastPause; ++i) {
    pause = std::min(pause * 2, kLastPause);
  }
  ++entry.attempts;
  entry.report = {.state = State::kMaking, .reason = error.message};
  wanted_.push(kind, entry.team, factory_.reactor().now() + pause);
  LOG_INFO("an interpreter cannot be kept ready now", {"layer", kind.layers.front()},
           {"error", error});
}

// One that cannot be made stays without an image, so nobody tries again; except when that is not
// its fault. Fails when cancelled.
Task<> PreloadedInterpreters::make(PreloadedKind kind, std::string team) {
  const Error no_room{Code::kResourceExhausted,
                      team.empty() ? "the memory for interpreters that are kept ready is taken"
                                   : "the team's memory for interpreters that are kept ready is "
                                     "taken, perhaps by sandboxes of what templates were before"};
  const auto before = entries_.find(kind);
  if (before == entries_.end()) {
    co_return ok();
  }
  if (!makes_room(kind, before->second, before->second.bytes)) {
    try_again(kind, before->second, no_room);
    co_return ok();
  }
  Entry entry;
  entry.team = std::move(team);
  const CellWork work = [&kind, &entry](const BuildCell& cell) {
    return start_and_copy(cell, kind, entry);
  };
  auto made = co_await factory_.look(kind.layers, work);
  if (!made && made.error().code == Code::kCancelled) {
    co_return std::move(made);
  }
  const auto found = entries_.find(kind);
  if (found == entries_.end()) {
    co_return ok();
  }
  if (!made && may_pass(made.error()) && found->second.attempts < kMaxAttempts) {
    try_again(kind, found->second, made.error());
    co_return ok();
  }
  if (!made) {
    found->second.report = {.state = State::kFailed, .reason = made.error().message};
    LOG_INFO("no interpreter of this kind is kept ready", {"layer", kind.layers.front()},
             {"error", made.error()});
    co_return ok();
  }
  found->second.bytes = entry.image->image.memory_bytes;
  if (!makes_room(kind, found->second, found->second.bytes)) {
    try_again(kind, found->second, no_room);
    co_return ok();
  }
  keep(kind, found->second, std::move(entry));
  co_return ok();
}

void PreloadedInterpreters::keep(const PreloadedKind& kind, Entry& entry, Entry made) {
  entry.image = std::move(made.image);
  entry.attempts = 0;
  entry.report = {.state = State::kReady,
                  .memory_bytes = entry.bytes,
                  .failures = std::move(made.report.failures)};
  ledger_.add(entry.image, entry.bytes, entry.team);
  LOG_INFO("an interpreter is kept ready", {"layer", kind.layers.front()},
           {"modules", kind.modules.size() - entry.report.failures.size()}, {"bytes", entry.bytes});
  for (const PreloadFailure& failure : entry.report.failures) {
    LOG_WARN("a module of a template cannot be imported", {"layer", kind.layers.front()},
             {"module", failure.module}, {"error", failure.error});
  }
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
  auto failures = co_await with_deadline(entry.team.empty() ? kPreloadTimeout : kTeamPreloadTimeout,
                                         wait_for_modules(*stream));
  if (!failures && is_deadline(failures.error())) {
    co_return fail(Code::kFailedPrecondition, "importing the modules takes too long",
                   "interpreter_failed");
  }
  CO_TRY(entry.report.failures, std::move(failures));
  stream.reset();
  CO_TRY(auto process, co_await cell.guest.get_process(id));
  CO_TRY(auto copied, co_await copy_interpreter(cell.guest, std::move(process), kMaxPreloadedBytes,
                                                CopyMemory::kShared));
  entry.image = std::make_shared<const CopiedInterpreter>(std::move(copied));
  co_return ok();
}

}  // namespace atl::control
