#include "control/preloaded.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

// What the interpreter, its loader or its libraries read when they start and never again.
bool matters_at_the_start(std::string_view variable) {
  constexpr std::array<std::string_view, 8> kPrefixes{"PYTHON", "IPYTHON", "LD_",  "MALLOC_",
                                                      "GLIBC_", "LC_",     "LANG", "MPL"};
  constexpr std::array<std::string_view, 4> kNames{"HOME", "USER", "LOGNAME", "TZ"};
  return std::ranges::find(kNames, variable) != kNames.end() ||
         std::ranges::any_of(kPrefixes,
                             [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

}  // namespace

PreloadedInterpreters::Image PreloadedInterpreters::find(const PreloadedKind& kind,
                                                         const StringMap& env) {
  if (std::ranges::any_of(env, matters_at_the_start, &StringMap::value_type::first)) {
    return nullptr;
  }
  const auto found = entries_.find(kind);
  if (found != entries_.end()) {
    found->second.last_used = ++uses_;
    return found->second.image;
  }
  make_room();
  entries_.emplace(kind, Entry{.image = nullptr, .last_used = ++uses_});
  wanted_.push_back(kind);
  asked_.set();
  return nullptr;
}

void PreloadedInterpreters::make_room() {
  if (entries_.size() < kMaxPreloaded) {
    return;
  }
  const auto oldest = std::ranges::min_element(
      entries_, {}, [](const auto& each) { return each.second.last_used; });
  std::erase(wanted_, oldest->first);
  entries_.erase(oldest);
}

Task<> PreloadedInterpreters::run() {
  for (;;) {
    while (wanted_.empty()) {
      asked_.clear();
      CO_TRY_DO(co_await asked_.wait());
    }
    PreloadedKind kind = std::move(wanted_.front());
    wanted_.pop_front();
    CO_TRY_DO(co_await make(std::move(kind)));
  }
}

// One that cannot be made stays without an image, so nobody tries again. Fails when cancelled.
Task<> PreloadedInterpreters::make(PreloadedKind kind) {
  Image image;
  const CellWork work = [&kind, &image](const BuildCell& cell) {
    return start_and_copy(cell, kind, image);
  };
  auto made = co_await factory_.look(kind.layers, work);
  if (!made && made.error().code == Code::kCancelled) {
    co_return std::move(made);
  }
  if (!made) {
    LOG_INFO("no interpreter of this kind is kept ready", {"layer", kind.layers.front()},
             {"error", made.error()});
    co_return ok();
  }
  LOG_INFO("an interpreter is kept ready", {"layer", kind.layers.front()},
           {"bytes", image->image.memory_bytes});
  if (const auto found = entries_.find(kind); found != entries_.end()) {
    found->second.image = std::move(image);
  }
  co_return ok();
}

Task<> PreloadedInterpreters::start_and_copy(const BuildCell& cell, const PreloadedKind& kind,
                                             Image& image) {
  const auto language = find_language("python");
  const std::string id = "preloaded";
  CO_TRY(auto stream, co_await cell.guest.spawn({.process_id = id,
                                                 .argv = interpreter_command(*language),
                                                 .env = interpreter_environment(*language),
                                                 .cwd = kind.cwd,
                                                 .user = kind.user,
                                                 .keep = true,
                                                 .channel = true}));
  CO_TRY_DO(co_await await_driver(*stream, *language));
  CO_TRY_DO(co_await stream->send_channel("warm - -\n"));
  stream.reset();
  CO_TRY(auto process, co_await cell.guest.get_process(id));
  CO_TRY(auto copied, co_await copy_interpreter(cell.guest, std::move(process), kMaxPreloadedBytes,
                                                CopyMemory::kOwn));
  image = std::make_shared<const CopiedInterpreter>(std::move(copied));
  co_return ok();
}

}  // namespace atl::control
