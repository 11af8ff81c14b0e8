// Claims: one or many sandboxes at once, by name, and at most once per key.
//
// The cells of a claim are made side by side; then all rows and the key become real in one
// transaction. Killed before it, the next start finds cells without rows, which nobody was
// promised, and destroys them; killed after it, whoever asks again with the key gets the answer.
#include <algorithm>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/random.h"
#include "base/trace.h"
#include "control/entry.h"
#include "control/limits.h"
#include "control/prepared_cells.h"

namespace atl::control {
namespace {

// How far the time of creation may run ahead of the clock to keep claims in order.
constexpr UnixMillis kMaxOrderingMillis = 1000;

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

Result<> validate_shape(const ClaimRequest& request) {
  if (request.count < 1 || request.count > kMaxClaimCount) {
    return fail(Code::kInvalidArgument, concat("count must be from 1 to ", kMaxClaimCount));
  }
  if (request.name.empty()) {
    return request.get_or_create
               ? Result<>{fail(Code::kInvalidArgument, "get_or_create needs a name to look for")}
               : Result<>{};
  }
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (request.name.size() > kMaxNameBytes || !std::ranges::all_of(request.name, good)) {
    return fail(Code::kInvalidArgument, concat("name must be 1 to ", kMaxNameBytes,
                                               " characters of a-z, A-Z, 0-9, '-', '_' and '.'"));
  }
  if (request.count > 1) {
    return fail(Code::kInvalidArgument, "a name is for one sandbox; leave out name or count");
  }
  return {};
}

}  // namespace

Task<Sandbox> Sandboxes::claim(ClaimRequest request) {
  CO_TRY(auto answer, co_await claim_all(std::move(request)));
  co_return std::move(answer.sandboxes.front());
}

Task<ClaimAnswer> Sandboxes::claim_all(ClaimRequest request) {
  TaskContext& here = co_await current_context();
  const Instant begin = here.loop->now();
  co_await trace_as(Operation::kCreate);
  auto claimed = co_await shielded(claim_once(std::move(request)));
  if (!claimed) {
    failed_claims_.add();
  } else if (claimed->created && !claimed->remembered) {
    claims_.add(claimed->sandboxes.size());
    claim_seconds_.observe_seconds(std::chrono::duration<double>(here.loop->now() - begin).count());
  }
  co_return std::move(claimed);
}

Task<ClaimAnswer> Sandboxes::claim_once(ClaimRequest request) {
  CO_TRY_DO(validate_shape(request));
  std::optional<OnceKeys::Entry> once;
  if (request.once) {
    CO_TRY(once, co_await once_keys_.enter(request.team_id, request.once->key,
                                           request.once->body_sha256));
  }
  if (once && once->remembered) {
    ClaimAnswer answer;
    answer.remembered = std::move(once->remembered);
    co_return std::move(answer);
  }
  if (request.complete) {
    const auto complete = std::move(request.complete);
    CO_TRY(request, co_await complete(std::move(request)));
  }
  const auto finish = std::move(request.finish);
  const auto key = request.once;
  const std::string team_id = request.team_id;
  CO_TRY(auto answer, co_await claim_started(std::move(request)));
  if (finish) {
    CO_TRY(answer, co_await finish(std::move(answer)));
    if (key) {
      CO_TRY_DO(co_await remember_finished(team_id, *key, answer));
    }
  }
  co_return std::move(answer);
}

// Without it, what is answered again is the answer as it was before the end.
Task<> Sandboxes::remember_finished(std::string team_id, ClaimOnce once,
                                    const ClaimAnswer& answer) {
  const std::string text = once.remember(answer);
  auto changed = co_await store_.run(
      [&](store::Store& store) { return store.change_claim_answer(team_id, once.key, text); });
  if (!changed) {
    LOG_WARN("the whole answer of a claim is not remembered", {"error", changed.error()});
  }
  co_return ok();
}

Task<ClaimAnswer> Sandboxes::claim_started(ClaimRequest request) {
  if (claim_starter_ == nullptr) {
    return claim_or_find(std::move(request));
  }
  return claim_starter_->claim(
      std::move(request), [this](ClaimRequest rest) { return claim_or_find(std::move(rest)); });
}

Task<ClaimAnswer> Sandboxes::claim_or_find(ClaimRequest request) {
  // A node that is being restarted is back in a moment: waiting is kinder than an error.
  if (!ready_) {
    if (auto waited = co_await with_deadline(kReadyWait, wait_until(node_ready_)); !waited) {
      co_return fail(Code::kUnavailable, "the node is not reachable at the moment; try again",
                     "not_ready");
    }
  }
  if (!request.origin && templates_.absent(request.template_name)) {
    CO_TRY_DO(co_await with_deadline(kNodeTimeout, node_.build_builtin(request.template_name)));
  }
  while (!request.name.empty() && names_.contains({request.team_id, request.name})) {
    if (!request.get_or_create) {
      co_return fail(Code::kAlreadyExists,
                     concat("there is already a sandbox with the name \"", request.name,
                            "\"; delete it, choose another name, or ask with get_or_create"),
                     "name_taken");
    }
    CO_TRY(const auto entry, co_await find_named(request.team_id, request.name));
    if (entry) {
      ClaimAnswer answer{.created = false};
      answer.sandboxes.push_back(view(*entry));
      co_return std::move(answer);
    }
  }
  ATOLL_FAULT_POINT("control.claim.begun");
  // No suspension between the look at the name and the entry that takes it.
  co_return co_await claim_now(std::move(request));
}

// Null when nobody has the name; waits while its sandbox is being made or removed.
Task<Sandboxes::EntryPointer> Sandboxes::find_named(std::string team_id, std::string name) {
  const std::pair key{std::move(team_id), std::move(name)};
  for (auto found = names_.find(key); found != names_.end(); found = names_.find(key)) {
    const EntryPointer entry = found->second;
    if (!entry->busy && !entry->unwanted && !to_be_removed(entry->row.status)) {
      co_return entry;
    }
    if (!entry->busy) {
      co_return fail(
          Code::kUnavailable,
          concat("the sandbox with the name \"", key.second, "\" is being deleted; try again"),
          "not_ready");
    }
    CO_TRY(const auto waited, co_await with_deadline(kNodeTimeout, hold(entry)));
  }
  co_return EntryPointer{};
}

Result<store::Limits> Sandboxes::claim_limits(const ClaimRequest& request,
                                              const std::string& template_name) const {
  ResourceRequest resources = request.resources;
  const ResourceRequest& usual = templates_.defaults(template_name).resources;
  for (auto member : {&ResourceRequest::memory, &ResourceRequest::cpu, &ResourceRequest::disk}) {
    if (!(resources.*member)) {
      resources.*member = usual.*member;
    }
  }
  TRY(store::Limits limits, decide_limits(options_.resources, resources));
  if (request.origin) {
    const store::Limits& before = request.origin->limits;
    limits.memory_bytes = request.resources.memory ? limits.memory_bytes : before.memory_bytes;
    limits.cpu_millis = request.resources.cpu ? limits.cpu_millis : before.cpu_millis;
    limits.disk_bytes = request.resources.disk ? limits.disk_bytes : before.disk_bytes;
  }
  return limits;
}

Result<Sandboxes::EntryPointer> Sandboxes::make_entry(const ClaimRequest& request,
                                                      std::size_t index) {
  std::string template_name = request.template_name;
  std::vector<std::string> layers;
  if (request.origin) {
    layers = request.origin->layers;  // its template may have changed, or be gone
  } else {
    TRY(const Template* source, templates_.look_up_ready(request.template_name, request.team_id));
    template_name = source->name;
    layers = source->layers;
  }
  TRY(const auto limits, claim_limits(request, template_name));
  TRY_DO(validate_env(request.env, "config.env_vars"));
  TRY_DO(validate_labels(request.labels));
  const UnixMillis now = this->now();
  auto entry = std::make_shared<Entry>();
  Sandbox& row = entry->row;
  row.ttl_seconds = request.ttl_seconds;
  row.hard_ttl_seconds = request.hard_ttl_seconds;
  row.idle_ttl_seconds = request.idle_ttl_seconds;
  TRY_DO(validate_ttls(row));
  // Those of one claim all fit, or none is begun; unless fewer will do.
  const std::size_t more = request.partial ? 1 : request.count - index;
  if (entries_.size() + more > options_.max_sandboxes) {
    return fail(Code::kResourceExhausted,
                concat("there are already ", entries_.size(), " sandboxes, the most allowed is ",
                       options_.max_sandboxes, "; delete some first"),
                "quota_exceeded");
  }
  row.team_id = request.team_id;
  row.name = request.name;
  row.template_name = std::move(template_name);
  row.layers = std::move(layers);
  row.env = request.env;
  row.limits = limits;
  row.auto_resume = request.auto_resume;
  row.ephemeral_tmp = request.ephemeral_tmp.value_or(
      request.origin ? request.origin->ephemeral_tmp
                     : templates_.defaults(row.template_name).ephemeral_tmp);
  row.expires_at = deadline_after(now, row.ttl_seconds);
  row.hard_expires_at = deadline_after(now, row.hard_ttl_seconds);
  row.labels = request.labels;
  row.parent_id = request.origin ? request.origin->parent_id : "";
  TRY(row.mounts, bind_mounts(request, index, row.template_name));
  // Several are made in a millisecond, and lists show them in the order in which they were asked
  // for. A clock that is set back is followed: what was made before it was is left aside.
  const bool same_moment = now <= last_created_at_ && last_created_at_ - now < kMaxOrderingMillis;
  last_created_at_ = same_moment ? last_created_at_ + 1 : now;
  row.claimed_at = row.created_at = row.updated_at = last_created_at_;
  entry->last_used_at = now;
  // A claim that is refused has taken nothing: what is ready is looked at first.
  const bool plain = prepared_ != nullptr && !request.origin && row.mounts.empty();
  row.id = plain ? prepared_->next_id(row, request.id_style) : "";
  if (row.id.empty()) {
    row.id = new_id(row.template_name, request.id_style);
  }
  TRY_DO(begin_documents(request, *entry));
  if (plain) {
    take_prepared(request, *entry);
  }
  return entry;
}

std::string Sandboxes::new_id(std::string_view template_name, IdStyle style) const {
  std::string id;
  do {
    id = style == IdStyle::kPlain ? concat("i", random_label(20))
                                  : concat("rs-", slug(template_name), "-", random_label(10));
  } while (entries_.contains(id) || adopted_cells_.contains(id));
  CHECK(id.size() <= kMaxSandboxIdBytes);
  return id;
}

// What others keep about the new sandbox. When one refuses, all forget it.
Result<> Sandboxes::begin_documents(const ClaimRequest& request, Entry& entry) {
  if (request.network != nullptr && documents_.empty()) {
    return fail(Code::kUnimplemented, "this server has no network policies");
  }
  for (SandboxDocuments* const documents : documents_) {
    auto records = documents->begin(entry.row, request);
    if (!records) {
      for (SandboxDocuments* const each : documents_) {
        each->forget(entry.row.id);
      }
      return fail(std::move(records).error());
    }
    std::ranges::move(*records, std::back_inserter(entry.records));
  }
  return {};
}

// All of them, or fewer when that is wanted and the quota ends.
Result<std::vector<Sandboxes::EntryPointer>> Sandboxes::make_entries(const ClaimRequest& request,
                                                                     ClaimAnswer& answer) {
  std::vector<EntryPointer> entries;
  for (std::size_t i = 0; i < request.count; ++i) {
    auto entry = make_entry(request, i);
    if (!entry && request.partial && !entries.empty()) {
      answer.failures.assign(request.count - i, entry.error());
      break;
    }
    if (!entry) {
      for (const auto& made : entries) {
        forget(*made);
      }
      return fail(std::move(entry).error());
    }
    remember(*entry);
    if (!request.name.empty()) {
      CHECK(names_.emplace(std::pair{request.team_id, request.name}, *entry).second);
    }
    entries.push_back(*std::move(entry));
  }
  count_.set(static_cast<std::int64_t>(entries_.size()));
  return entries;
}

Task<ClaimAnswer> Sandboxes::claim_now(ClaimRequest request) {
  ClaimAnswer answer;
  CO_TRY(auto entries, make_entries(request, answer));
  co_await mark(Step::kAdmit);
  std::vector<Hold> holds;
  holds.reserve(entries.size());
  std::vector<Result<>> outcomes(entries.size());
  Scope starting{co_await current_context()};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    holds.emplace_back(entries[i]);
    starting.spawn("start", start_cell(entries[i], request, outcomes[i]));
  }
  (void)co_await starting.join();
  std::vector<EntryPointer> made;
  std::vector<EntryPointer> missing;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    (outcomes[i] ? made : missing).push_back(entries[i]);
    if (!outcomes[i]) {
      answer.failures.push_back(std::move(outcomes[i]).error());
    }
  }
  if (!missing.empty() && (made.empty() || !request.partial)) {
    (void)co_await undo_claim(std::move(entries), "");
    co_return fail(answer.failures.front());
  }
  (void)co_await undo_claim(std::move(missing), "");
  ATOLL_FAULT_POINT("control.claim.cells_made");
  if (request.origin) {
    // One commit for all children; before their rows, so that no row outlives its disk.
    if (auto durable = co_await with_deadline(kPauseTimeout, node_.commit_disks()); !durable) {
      (void)co_await undo_claim(std::move(made), "");
      co_return fail(std::move(durable).error().note("making the disks durable"));
    }
  }
  if (auto recorded = co_await record_claim(made, request, answer); !recorded) {
    (void)co_await undo_claim(std::move(made), request.once ? request.once->key : "");
    co_return fail(std::move(recorded).error());
  }
  ATOLL_FAULT_POINT("control.claim.recorded");
  co_return std::move(answer);
}

std::vector<store::Record> Sandboxes::own_documents(const Sandbox& row,
                                                    const ClaimRequest& request) const {
  std::vector<store::Record> documents = request.documents;
  for (store::Record& document : documents) {
    document.id = document.owner_id = row.id;
    document.team_id = row.team_id;
    document.version = 1;
    document.created_at = document.updated_at = row.created_at;
  }
  return documents;
}

std::vector<store::Record> Sandboxes::inherited_documents(const std::string& parent_id) const {
  std::vector<store::Record> all;
  for (DocumentKeeper* keeper : document_keepers_) {
    std::ranges::move(keeper->inherit(parent_id), std::back_inserter(all));
  }
  return all;
}

Task<> Sandboxes::record_claim(std::vector<EntryPointer> made, const ClaimRequest& request,
                               ClaimAnswer& answer) {
  std::vector<store::NewSandbox> rows;
  const UnixMillis ready_at = this->now();
  for (const auto& entry : made) {
    // A slow start is not paid for with the time that was asked for.
    entry->row.expires_at = deadline_after(ready_at, entry->row.ttl_seconds);
    entry->row.hard_expires_at = deadline_after(ready_at, entry->row.hard_ttl_seconds);
    entry->row.status = request.paused ? SandboxStatus::kPaused : SandboxStatus::kRunning;
    answer.sandboxes.push_back(entry->row);
    rows.push_back({entry->row,
                    event_of(entry->row, status_name(entry->row.status), entry->row.created_at),
                    request.origin && !request.origin->descent.parent_id.empty()
                        ? std::optional{request.origin->descent}
                        : std::nullopt,
                    own_documents(entry->row, request)});
    std::ranges::move(entry->records, std::back_inserter(rows.back().records));
    entry->records.clear();
  }
  std::optional<store::ClaimKey> key;
  if (request.once) {
    key = store::ClaimKey{.team_id = request.team_id,
                          .key = request.once->key,
                          .body_sha256 = request.once->body_sha256,
                          .answer = request.once->remember(answer),
                          .created_at = clock_.now()};
  }
  // A fork is a promise like a snapshot; an ordinary claim never waits for the disk.
  const auto durability = request.origin ? store::Durability::kDurable : store::Durability::kQuick;
  auto inserted = co_await store_.run(
      [&](store::Store& store) { return store.insert_sandboxes(rows, key, durability); });
  co_await mark(Step::kStore);
  if (!inserted) {
    // A commit that reports failure may still have happened: look. It may be the sync that failed.
    auto kept = co_await store_.run([&](store::Store& store) -> Result<> {
      TRY_DO(store.find_sandbox(made.front()->row.id));
      return durability == store::Durability::kDurable ? store.sync() : Result<>{};
    });
    if (!kept) {
      co_return fail(std::move(inserted).error().note("recording the sandbox"));
    }
  }
  for (const store::NewSandbox& each : rows) {
    for (const store::Record& document : each.records) {
      for (DocumentKeeper* keeper : document_keepers_) {
        keeper->recorded(each.sandbox, document);
      }
    }
  }
  for (const auto& entry : made) {
    if (request.paused && request.awake_first) {
      entry->row.status = SandboxStatus::kRunning;
      entry->paused_in_store = true;
    } else if (request.paused) {
      entry->paused_at = clock_.now();
      plan_dump(*entry);
    }
    schedule(*entry, due_at(*entry));
    templates_.note_use(entry->row.template_name, entry->row.created_at);
    LOG_DEBUG("sandbox made", {"sandbox", entry->row.id}, {"template", entry->row.template_name},
              {"status", status_name(entry->row.status)});
  }
  co_return ok();
}

}  // namespace atl::control
