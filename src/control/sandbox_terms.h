// The terms of all sandboxes that were made on some: one document each, in the store, owned by its
// sandbox, handed on to forks, and all of them in memory, because this process is their only
// writer. Those without a document are on the usual terms: their ttl pauses them, their row says
// whether use wakes them, and their ports are not public. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/documents.h"
#include "control/sandbox_log.h"
#include "control/sandboxes.h"
#include "control/store_access.h"
#include "control/terms.h"

namespace atl::control {

using TermsPtr = std::shared_ptr<const Terms>;

class SandboxTerms final : public DocumentKeeper {
 public:
  SandboxTerms(StoreAccess store, Sandboxes& sandboxes, const WallClock& clock);

  // Reads the documents. REQUIRES: the sandboxes have started, and before anything else.
  Task<> start();

  // Null when it is on the usual terms.
  TermsPtr find(std::string_view sandbox_id) const;
  // Never null: the usual ones, when it has no others.
  TermsPtr of(const Sandbox& sandbox) const;
  // Replaces them; durable when it returns.
  Task<TermsPtr> put(std::string team_id, std::string sandbox_id, Terms terms);
  // For a claim.
  static store::Record document(const Terms& terms);
  // For traffic: a paused sandbox goes on when its terms let traffic wake it, for as long as it was
  // made for, at least kMinWakeSeconds. kFailedPrecondition with reason sandbox_paused when they do
  // not, or when its processes were not kept. Many callers at once get one resume.
  Task<Sandbox> wake(std::string team_id, std::string sandbox_id);

  // Where ends of time are told; null: nowhere. Outlives this.
  void log_to(SandboxLog* log) { log_ = log; }

  std::vector<store::Record> inherit(const std::string& parent_id) override;
  void recorded(const store::Sandbox& sandbox, const store::Record& record) override;

 private:
  struct Kept {
    std::string team_id;
    std::int64_t version = 1;
    TermsPtr terms;
  };
  TtlEnd end_of_time(const Sandbox& sandbox);
  void keep(const store::Record& record, TermsPtr terms);
  void forget_lost();

  StoreAccess store_;
  Sandboxes& sandboxes_;
  const WallClock& clock_;
  SandboxLog* log_ = nullptr;
  std::map<std::string, Kept, std::less<>> terms_;  // by sandbox
  std::size_t tidy_at_ = 64;
};

inline constexpr std::int64_t kMinWakeSeconds = 300;

}  // namespace atl::control
