#include "control/sandbox_terms.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "control/owned_records.h"

namespace atl::control {
namespace {

constexpr const char* kKind = "sandbox-terms";

Result<TermsPtr> read_record(const store::Record& record) {
  TRY(const Json body, Json::parse(record.body));
  TRY(Terms terms, parse_terms(body));
  return std::make_shared<const Terms>(std::move(terms));
}

}  // namespace

SandboxTerms::SandboxTerms(StoreAccess store, Sandboxes& sandboxes, const WallClock& clock)
    : store_(store), sandboxes_(sandboxes), clock_(clock) {
  sandboxes_.add_document_keeper(*this);
  sandboxes_.on_ttl_over([this](const Sandbox& sandbox) { return end_of_time(sandbox); });
}

TtlEnd SandboxTerms::end_of_time(const Sandbox& sandbox) {
  const TtlEnd end = of(sandbox)->ttl_end;
  if (log_ != nullptr) {
    log_->add(sandbox.id, {.source = "sandbox",
                           .message = end == TtlEnd::kDelete ? "its time is over"
                                                             : "its time is over: paused"});
  }
  return end;
}

Task<> SandboxTerms::start() {
  CO_TRY(const auto records, co_await load_owned_records(store_, kKind));
  for (const store::Record& record : records) {
    auto terms = read_record(record);
    if (!terms) {
      LOG_ERROR("the terms of a sandbox cannot be read", {"sandbox", record.owner_id},
                {"error", terms.error()});
      // Closed: nobody must come in because of what we cannot read.
      terms = std::make_shared<const Terms>(Terms{.auto_resume = false, .public_traffic = false});
    }
    keep(record, *std::move(terms));
  }
  co_return ok();
}

TermsPtr SandboxTerms::find(std::string_view sandbox_id) const {
  const auto found = terms_.find(sandbox_id);
  return found == terms_.end() ? nullptr : found->second.terms;
}

TermsPtr SandboxTerms::of(const Sandbox& sandbox) const {
  if (auto found = find(sandbox.id)) {
    return found;
  }
  // Its ports were not made for the public: what is open of them is declared.
  return std::make_shared<const Terms>(Terms{.timeout_seconds = sandbox.ttl_seconds,
                                             .auto_resume = sandbox.auto_resume,
                                             .public_traffic = false,
                                             .asked_template = sandbox.template_name});
}

Task<TermsPtr> SandboxTerms::put(std::string team_id, std::string sandbox_id, Terms terms) {
  CO_TRY_DO(sandboxes_.get(team_id, sandbox_id));
  const auto before = terms_.find(sandbox_id);
  const std::int64_t version = before == terms_.end() ? 0 : before->second.version;
  store::Record record = document(terms);
  record.id = record.owner_id = sandbox_id;
  record.team_id = team_id;
  record.version = version + 1;
  record.created_at = record.updated_at = clock_.now();
  CO_TRY_DO(
      co_await store_.run([&](store::Store& store) { return store.put_record(record, version); }));
  auto kept = std::make_shared<const Terms>(std::move(terms));
  keep(record, kept);
  co_return TermsPtr{kept};
}

store::Record SandboxTerms::document(const Terms& terms) {
  return {.kind = kKind, .body = terms_json(terms).dump()};
}

Task<Sandbox> SandboxTerms::wake(std::string team_id, std::string sandbox_id) {
  CO_TRY(Sandbox sandbox, sandboxes_.get(team_id, sandbox_id));
  if (sandbox.status != SandboxStatus::kPaused) {
    co_return std::move(sandbox);
  }
  const TermsPtr terms = of(sandbox);
  if (!terms->auto_resume || sandboxes_.memory_of(sandbox_id) == PauseMemory::kDrop) {
    co_return fail(Code::kFailedPrecondition,
                   concat("sandbox ", sandbox_id, " is paused and traffic does not wake it"),
                   "sandbox_paused");
  }
  // It starts to count with the resume. Those on the usual terms keep the time their row says.
  const bool made_for_a_time = find(sandbox_id) && terms->timeout_seconds > 0;
  const std::int64_t before = sandbox.ttl_seconds;
  const std::int64_t wanted =
      made_for_a_time ? std::max(terms->timeout_seconds, kMinWakeSeconds) : before;
  if (wanted != before) {
    CO_TRY_DO(co_await sandboxes_.update(team_id, sandbox_id, {.ttl_seconds = wanted}));
  }
  auto resumed = co_await sandboxes_.resume(team_id, sandbox_id);
  if (!resumed && wanted != before) {
    (void)co_await sandboxes_.update(team_id, sandbox_id, {.ttl_seconds = before});
  }
  CO_TRY(ResumeAnswer answer, std::move(resumed));
  co_return std::move(answer.sandbox);
}

std::vector<store::Record> SandboxTerms::inherit(const std::string& parent_id) {
  const auto parent = find(parent_id);
  return parent ? std::vector{document(*parent)} : std::vector<store::Record>{};
}

void SandboxTerms::recorded(const store::Sandbox& sandbox, const store::Record& record) {
  if (record.kind != kKind) {
    return;
  }
  auto terms = read_record(record);
  CHECK(terms.has_value());  // document() wrote it
  (void)sandbox;
  keep(record, *std::move(terms));
}

void SandboxTerms::keep(const store::Record& record, TermsPtr terms) {
  if (terms_.size() >= tidy_at_) {
    forget_lost();
  }
  terms_.insert_or_assign(record.owner_id, Kept{record.team_id, record.version, std::move(terms)});
}

// Sandboxes go in many ways. Looked for whenever what is kept has doubled.
void SandboxTerms::forget_lost() {
  std::erase_if(terms_, [this](const auto& each) {
    return !sandboxes_.get(each.second.team_id, each.first).has_value();
  });
  tidy_at_ = std::max<std::size_t>(64, 2 * terms_.size());
}

}  // namespace atl::control
