#include "control/sandboxes.h"

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {
namespace {

Task<> wait_until(Event& event) {
  co_return co_await event.wait();
}

// "My_Template 2" -> "my-template-2": the readable part of a sandbox id.
std::string slug(std::string_view name) {
  constexpr std::size_t kMaxSlugBytes = 24;
  std::string out;
  for (const char c : to_lower(name)) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (good) {
      out += c;
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
    if (out.size() >= kMaxSlugBytes) {
      break;
    }
  }
  while (out.ends_with('-')) {
    out.pop_back();
  }
  return out.empty() ? "sandbox" : out;
}

Result<> validate_ttl(const ClaimRequest& request) {
  for (const auto seconds : {request.ttl_seconds, request.hard_ttl_seconds}) {
    if (seconds < 0 || seconds > kMaxTtlSeconds) {
      return fail(
          Code::kInvalidArgument,
          concat("config.ttl and config.hard_ttl are seconds from 0 (none) to ", kMaxTtlSeconds));
    }
  }
  if (request.ttl_seconds > 0 && request.hard_ttl_seconds > 0 &&
      request.ttl_seconds > request.hard_ttl_seconds) {
    return fail(Code::kInvalidArgument,
                concat("config.ttl (", request.ttl_seconds, ") must not be more than ",
                       "config.hard_ttl (", request.hard_ttl_seconds, ")"));
  }
  return {};
}

std::optional<UnixMillis> deadline_after(UnixMillis now, std::int64_t seconds) {
  return seconds == 0 ? std::nullopt : std::optional{now + seconds * 1000};
}

store::Event event_of(const Sandbox& row, std::string_view kind, UnixMillis now) {
  return store::Event{
      .kind = concat("sandbox.", kind), .subject = row.id, .team_id = row.team_id, .at = now};
}

std::unexpected<Error> no_such_sandbox(std::string_view id) {
  return fail(Code::kNotFound, concat("there is no sandbox \"", to_valid_utf8(id), "\""),
              "sandbox_not_found");
}

}  // namespace

Result<> validate_env(const StringMap& env, std::string_view field) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : env) {
    bytes += name.size() + value.size() + 2;
    if (name.empty() || name.find('=') != std::string::npos ||
        name.find('\0') != std::string::npos || value.find('\0') != std::string::npos) {
      return fail(Code::kInvalidArgument,
                  concat(field, " has a variable with an unusable name or value: \"",
                         to_valid_utf8(name), "\"; no '=' in names, no NUL bytes"));
    }
  }
  if (env.size() > kMaxEnvVariables || bytes > kMaxEnvBytes) {
    return fail(Code::kInvalidArgument, concat(field, " is too large; at most ", kMaxEnvVariables,
                                               " variables and ", kMaxEnvBytes, " bytes"));
  }
  return {};
}

Sandboxes::Sandboxes(StoreAccess store, node::Node& node, const WallClock& clock, Metrics& metrics,
                     SandboxesOptions options)
    : store_(store),
      node_(node),
      clock_(clock),
      options_(options),
      count_(metrics.gauge("atoll_control_sandboxes_count", "Sandboxes that exist")),
      claims_(metrics.counter("atoll_control_claims_total", "Claims that succeeded")),
      failed_claims_(metrics.counter("atoll_control_claims_failed_total", "Claims that failed")),
      removals_(metrics.counter("atoll_control_removals_total", "Sandboxes removed")),
      restarts_(metrics.counter("atoll_control_restarts_total",
                                "Sandboxes started again from their filesystem")),
      failures_(metrics.counter("atoll_control_failures_total", "Sandboxes marked as failed")),
      claim_seconds_(metrics.histogram("atoll_control_claim_seconds", "Time a claim took")) {
  metrics.gauge("atoll_control_sandboxes_max", "Sandboxes that may exist")
      .set(static_cast<std::int64_t>(options_.max_sandboxes));
}

Sandboxes::~Sandboxes() = default;

Task<> Sandboxes::start() {
  CO_TRY(auto rows,
         co_await store_.run([](store::Store& store) { return store.list_sandboxes(); }));
  for (auto& row : rows) {
    auto entry = std::make_shared<Entry>();
    entry->row = std::move(row);
    note_deadline(entry->row);
    entries_.emplace(entry->row.id, std::move(entry));
  }
  count_.set(static_cast<std::int64_t>(entries_.size()));
  CO_TRY_DO(co_await shielded(reconcile()));
  set_ready(true);
  co_return ok();
}

// --- looking ---------------------------------------------------------------------------------

Result<Sandboxes::EntryPointer> Sandboxes::find(std::string_view team_id,
                                                std::string_view id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->row.team_id != team_id) {
    return no_such_sandbox(id);
  }
  return found->second;
}

Sandbox Sandboxes::view(const Entry& entry) {
  Sandbox row = entry.row;
  if (entry.restarting && row.status == SandboxStatus::kRunning) {
    row.status = SandboxStatus::kStarting;
  }
  return row;
}

Result<Sandbox> Sandboxes::get(std::string_view team_id, std::string_view id) const {
  TRY(const auto entry, find(team_id, id));
  return view(*entry);
}

ListAnswer Sandboxes::list(const ListRequest& request) const {
  std::vector<const Entry*> matches;
  for (const auto& [id, entry] : entries_) {
    if (entry->row.team_id == request.team_id &&
        (!request.status || view(*entry).status == *request.status) &&
        (!request.template_name || entry->row.template_name == *request.template_name)) {
      matches.push_back(entry.get());
    }
  }
  std::sort(matches.begin(), matches.end(), [](const Entry* a, const Entry* b) {
    return a->row.claimed_at != b->row.claimed_at ? a->row.claimed_at > b->row.claimed_at
                                                  : a->row.id < b->row.id;
  });
  ListAnswer answer;
  const std::size_t begin = std::min(request.offset, matches.size());
  const std::size_t end = begin + std::min(request.limit, matches.size() - begin);
  for (std::size_t i = begin; i < end; ++i) {
    answer.sandboxes.push_back(view(*matches[i]));
  }
  answer.has_more = end < matches.size();
  return answer;
}

Task<RunningSandbox> Sandboxes::running(std::string team_id, std::string id) {
  CO_TRY(auto entry, find(team_id, id));
  if (entry->busy && (entry->restarting || entry->row.status == SandboxStatus::kStarting)) {
    CO_TRY(const auto waited, co_await with_deadline(kNodeTimeout, hold(entry)));
  }
  if (entry->gone) {
    co_return no_such_sandbox(id);
  }
  const auto& row = entry->row;
  if (row.status != SandboxStatus::kRunning || entry->guest_socket.empty()) {
    const auto status = status_name(view(*entry).status);
    co_return fail(Code::kUnavailable,
                   row.status == SandboxStatus::kFailed
                       ? concat("sandbox ", id, " has failed (", row.failure, "); delete it")
                       : concat("sandbox ", id, " is ", status, " and cannot be used now"),
                   "sandbox_not_running");
  }
  const TemplateDefaults& defaults = templates_.defaults(row.template_name);
  StringMap env = row.env;
  env.insert(defaults.env.begin(), defaults.env.end());
  co_return RunningSandbox{row.id, entry->guest_socket, std::move(env), defaults.user,
                           defaults.cwd};
}

// --- changing --------------------------------------------------------------------------------

Task<Sandboxes::Hold> Sandboxes::hold(EntryPointer entry) {
  while (entry->busy) {
    entry->released.clear();
    CO_TRY_DO(co_await entry->released.wait());
  }
  co_return Hold{std::move(entry)};
}

Task<> Sandboxes::change(Entry& entry, store::Transition transition, store::Durability durability) {
  const store::Expected expected{entry.row.status, entry.row.generation};
  transition.updated_at = clock_.now();
  const auto event = event_of(entry.row, status_name(transition.status), transition.updated_at);
  auto changed = co_await store_.run([&](store::Store& store) {
    return store.change_sandbox(entry.row.id, expected, transition, event, durability);
  });
  if (!changed) {
    // A commit that reports failure may still have happened: look.
    auto row = co_await store_.run(
        [&entry](store::Store& store) { return store.find_sandbox(entry.row.id); });
    if (row) {
      entry.row = *std::move(row);
    }
    co_return fail(std::move(changed).error().note(concat("recording sandbox ", entry.row.id)));
  }
  entry.row.status = transition.status;
  entry.row.generation = transition.generation;
  entry.row.failure = std::move(transition.failure);
  entry.row.updated_at = transition.updated_at;
  co_return ok();
}

void Sandboxes::note_deadline(const Sandbox& row) {
  for (const auto& deadline : {row.expires_at, row.hard_expires_at}) {
    if (deadline) {
      deadlines_.emplace(*deadline, row.id);
    }
  }
  deadlines_changed_.set();
}

void Sandboxes::forget(Entry& entry) {
  entry.gone = true;
  for (const auto& deadline : {entry.row.expires_at, entry.row.hard_expires_at}) {
    if (deadline) {
      deadlines_.erase({*deadline, entry.row.id});
    }
  }
  entries_.erase(entry.row.id);
  count_.set(static_cast<std::int64_t>(entries_.size()));
}

Task<Sandbox> Sandboxes::claim(ClaimRequest request) {
  TaskContext& here = co_await current_context();
  const Instant begin = here.loop->now();
  auto claimed = co_await shielded(claim_now(std::move(request)));
  (claimed ? claims_ : failed_claims_).add();
  claim_seconds_.observe_seconds(std::chrono::duration<double>(here.loop->now() - begin).count());
  co_return std::move(claimed);
}

Result<Sandboxes::EntryPointer> Sandboxes::make_entry(const ClaimRequest& request) {
  TRY(auto source, templates_.find_ready(request.template_name));
  ResourceRequest resources = request.resources;
  const ResourceRequest& usual = templates_.defaults(source.name).resources;
  for (auto member : {&ResourceRequest::memory, &ResourceRequest::cpu, &ResourceRequest::disk}) {
    if (!(resources.*member)) {
      resources.*member = usual.*member;
    }
  }
  TRY(const auto limits, decide_limits(options_.resources, resources));
  TRY_DO(validate_env(request.env, "config.env_vars"));
  TRY_DO(validate_ttl(request));
  if (entries_.size() >= options_.max_sandboxes) {
    return fail(Code::kResourceExhausted,
                concat("there are already ", entries_.size(), " sandboxes, the most allowed is ",
                       options_.max_sandboxes, "; delete some first"),
                "quota_exceeded");
  }
  const UnixMillis now = clock_.now();
  auto entry = std::make_shared<Entry>();
  Sandbox& row = entry->row;
  do {
    row.id = concat("rs-", slug(source.name), "-", random_label(10));
  } while (entries_.contains(row.id));
  CHECK(row.id.size() <= kMaxSandboxIdBytes);
  row.team_id = request.team_id;
  row.template_name = source.name;
  row.layers = std::move(source.layers);
  row.env = request.env;
  row.limits = limits;
  row.auto_resume = request.auto_resume;
  row.ttl_seconds = request.ttl_seconds;
  row.hard_ttl_seconds = request.hard_ttl_seconds;
  row.expires_at = deadline_after(now, request.ttl_seconds);
  row.hard_expires_at = deadline_after(now, request.hard_ttl_seconds);
  row.labels = request.labels;
  row.claimed_at = row.created_at = row.updated_at = now;
  return entry;
}

void Sandboxes::set_ready(bool ready) {
  ready_ = ready;
  if (ready) {
    node_ready_.set();
  } else {
    node_ready_.clear();
  }
}

Task<Sandbox> Sandboxes::claim_now(ClaimRequest request) {
  // A node that is being restarted is back in a moment: waiting is kinder than an error.
  if (auto waited = co_await with_deadline(kReadyWait, wait_until(node_ready_)); !waited) {
    co_return fail(Code::kUnavailable, "the node is not reachable at the moment; try again",
                   "not_ready");
  }
  if (templates_.absent(request.template_name)) {
    CO_TRY_DO(co_await with_deadline(kNodeTimeout, node_.build_builtin(request.template_name)));
  }
  CO_TRY(const auto entry, make_entry(request));
  entries_.emplace(entry->row.id, entry);
  count_.set(static_cast<std::int64_t>(entries_.size()));
  const Hold held{entry};
  if (auto started = co_await start_claimed(entry); !started) {
    (void)co_await finish_deletion(entry);  // goes on in the background when it fails
    co_return fail(std::move(started).error());
  }
  note_deadline(entry->row);
  LOG_INFO("sandbox running", {"sandbox", entry->row.id}, {"template", entry->row.template_name});
  co_return view(*entry);
}

Task<> Sandboxes::start_claimed(EntryPointer entry) {
  const auto& limits = entry->row.limits;
  node::CreateRequest request{
      .id = entry->row.id,
      .hostname = entry->row.id,
      .layers = entry->row.layers,
      .limits = {limits.memory_bytes, limits.cpu_millis, limits.process_count, limits.disk_bytes}};
  auto cell = co_await with_deadline(kNodeTimeout, node_.create(std::move(request)));
  if (!cell) {
    co_return fail(std::move(cell).error().note("starting the sandbox"));
  }
  entry->guest_socket = cell->guest_socket;
  // One transaction: the row comes after its cell. Killed in between, the next start finds a cell
  // without a row, which nobody was promised, and destroys it.
  entry->row.status = SandboxStatus::kRunning;
  const auto event = event_of(entry->row, "running", entry->row.created_at);
  auto inserted = co_await store_.run(
      [&](store::Store& store) { return store.insert_sandbox(entry->row, event); });
  if (!inserted) {
    co_return fail(std::move(inserted).error().note("recording the sandbox"));
  }
  co_return ok();
}

Task<> Sandboxes::remove(std::string team_id, std::string id) {
  return shielded(remove_now(std::move(team_id), std::move(id)));
}

Task<> Sandboxes::remove_now(std::string team_id, std::string id) {
  CO_TRY(const auto entry, find(team_id, id));
  CO_TRY(const auto held, co_await hold(entry));
  if (entry->gone) {
    co_return no_such_sandbox(id);
  }
  if (entry->row.status != SandboxStatus::kTerminating) {
    store::Transition transition{.status = SandboxStatus::kTerminating,
                                 .generation = entry->row.generation};
    CO_TRY_DO(co_await change(*entry, std::move(transition), store::Durability::kDurable));
  }
  auto finished = co_await finish_deletion(entry);
  if (!finished) {
    co_return fail(std::move(finished).error().note(
        "the deletion is recorded and goes on by itself, but is not finished"));
  }
  removals_.add();
  LOG_INFO("sandbox removed", {"sandbox", id});
  co_return ok();
}

// REQUIRES: the entry is held. Its row goes whatever its state: nobody was promised this sandbox,
// or it is to be deleted.
Task<> Sandboxes::finish_deletion(EntryPointer entry) {
  auto destroyed = co_await with_deadline(kNodeTimeout, node_.destroy({.id = entry->row.id}));
  if (!destroyed && destroyed.error().code != Code::kNotFound) {
    deletion_pending_.set();
    co_return fail(std::move(destroyed).error().note(concat("destroying ", entry->row.id)));
  }
  entry->guest_socket.clear();
  const store::Expected expected{entry->row.status, entry->row.generation};
  const auto event = event_of(entry->row, "deleted", clock_.now());
  auto removed = co_await store_.run(
      [&](store::Store& store) { return store.remove_sandbox(entry->row.id, expected, event); });
  if (!removed && removed.error().code != Code::kNotFound) {
    deletion_pending_.set();
    co_return fail(std::move(removed).error().note(concat("removing ", entry->row.id)));
  }
  forget(*entry);
  co_return ok();
}

}  // namespace atl::control
