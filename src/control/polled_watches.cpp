#include "control/polled_watches.h"

#include <algorithm>
#include <iterator>

#include "base/random.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

Task<> wait_for_ever() {
  Event never;
  co_return co_await never.wait();
}

}  // namespace

struct PolledWatches::Entry {
  std::string id;
  About about;
  std::unique_ptr<FileWatch> watch;
  std::vector<guest::FileEvent> events;
  std::size_t bytes = 0;
  bool missed = false;
  bool asked = false;  // since the last look
  CancelState* listening = nullptr;

  void keep(guest::FileEvent event) {
    bytes += event.path.size();
    missed = missed || event.event == guest::FileEventType::kOverflow ||
             events.size() >= kMaxPolledChanges || bytes > kMaxPolledBytes;
    if (missed) {
      events.clear();
      return;
    }
    events.push_back(std::move(event));
  }

  // Until its sandbox is gone, or nobody asks any more.
  static Task<> follow(EntryPointer entry) {
    for (;;) {
      entry->asked = false;
      auto round = co_await with_deadline(kMaxPollPause, collect(entry));
      if (round || round.error().code != Code::kDeadlineExceeded || !entry->asked) {
        co_return std::move(round);
      }
    }
  }

  static Task<> collect(EntryPointer entry) {
    while (!entry->missed) {
      CO_TRY(auto event, co_await entry->watch->next());
      entry->keep(std::move(event));
    }
    co_return ok();
  }
};

PolledWatches::~PolledWatches() = default;

Task<> PolledWatches::run() {
  Scope scope{co_await current_context()};
  scope.on_error([](const char*, const Error&) {});  // a sandbox that is gone
  scope_ = &scope;
  auto ended = co_await wait_for_ever();
  scope_ = nullptr;
  (void)co_await scope.cancel_and_join();
  entries_.clear();
  co_return std::move(ended);
}

Result<std::string> PolledWatches::add(About about, std::unique_ptr<FileWatch> watch) {
  const auto of_sandbox = std::ranges::count_if(entries_, [&about](const auto& each) {
    return each.second->about.sandbox.sandbox_id == about.sandbox.sandbox_id;
  });
  if (scope_ == nullptr || entries_.size() >= kMaxPolledWatches ||
      static_cast<std::size_t>(of_sandbox) >= kMaxPolledWatchesPerSandbox) {
    return fail(Code::kResourceExhausted, "there are too many watches; remove some first");
  }
  auto entry = std::make_shared<Entry>();
  entry->id = concat("w", random_hex(16));
  entry->about = std::move(about);
  entry->watch = std::move(watch);
  entries_.emplace(entry->id, entry);
  scope_->spawn("polled watch", listen(entry));
  return entry->id;
}

Task<> PolledWatches::listen(EntryPointer entry) {
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel};
  entry->listening = &cancel;
  (void)co_await Entry::follow(entry).under(inner);
  entry->listening = nullptr;
  entry->watch.reset();
  if (entry->missed) {  // that is still to be told
    (void)co_await sleep_for(kMaxPollPause);
  }
  if (const auto found = entries_.find(entry->id); found != entries_.end()) {
    entries_.erase(found);
  }
  co_return ok();
}

Result<PolledWatches::EntryPointer> PolledWatches::find(const SandboxRef& sandbox,
                                                        const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->about.sandbox.team_id != sandbox.team_id ||
      found->second->about.sandbox.sandbox_id != sandbox.sandbox_id) {
    return fail(Code::kNotFound, concat("watcher with id ", to_valid_utf8(id), " not found"));
  }
  return found->second;
}

Result<PolledWatches::Changes> PolledWatches::take(const SandboxRef& sandbox,
                                                   const std::string& id) {
  TRY(const auto entry, find(sandbox, id));
  entry->asked = true;
  if (entry->missed) {
    entries_.erase(id);
    return fail(Code::kDataLoss, "watcher error: more happened than could be kept");
  }
  Changes changes{entry->about, {}};
  auto& events = entry->events;
  const auto count =
      entry->about.describe ? std::min(events.size(), kMaxDescribedChanges) : events.size();
  const auto end = events.begin() + static_cast<std::ptrdiff_t>(count);
  changes.events.assign(std::make_move_iterator(events.begin()), std::make_move_iterator(end));
  events.erase(events.begin(), end);
  for (const guest::FileEvent& event : changes.events) {
    entry->bytes -= event.path.size();
  }
  return changes;
}

Result<> PolledWatches::remove(const SandboxRef& sandbox, const std::string& id) {
  TRY(const auto entry, find(sandbox, id));
  entries_.erase(id);
  if (entry->listening != nullptr) {
    entry->listening->cancel();
  }
  return {};
}

}  // namespace atl::control
