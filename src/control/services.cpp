#include "control/services.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "control/service_document.h"

namespace atl::control {
namespace {

constexpr const char* kKind = "services";

Result<SandboxServicesPtr> read_record(const store::Record& record) {
  TRY(const Json body, Json::parse(record.body));
  TRY(auto services, parse_services(body));
  return std::make_shared<SandboxServices>(SandboxServices{.sandbox_id = record.owner_id,
                                                           .team_id = record.team_id,
                                                           .version = record.version,
                                                           .services = std::move(services)});
}

}  // namespace

Services::Services(StoreAccess store, Sandboxes& sandboxes, const WallClock& clock)
    : store_(store), sandboxes_(sandboxes), clock_(clock) {
  sandboxes_.add_document_keeper(*this);
}

Task<> Services::start() {
  CO_TRY(const auto records,
         co_await store_.run([](store::Store& store) { return store.list_records(kKind); }));
  for (const store::Record& record : records) {
    if (!sandboxes_.get(record.team_id, record.owner_id)) {
      // It was written while its sandbox went.
      CO_TRY_DO(co_await store_.run(
          [&](store::Store& store) { return store.remove_record(kKind, record.id); }));
      continue;
    }
    auto services = read_record(record);
    if (!services) {
      // Nothing of it is public then: closed is the safe side.
      LOG_ERROR("the services of a sandbox cannot be read", {"sandbox", record.owner_id},
                {"error", services.error()});
      continue;
    }
    keep(*std::move(services));
  }
  co_return ok();
}

SandboxServicesPtr Services::find(std::string_view sandbox_id) const {
  const auto found = services_.find(sandbox_id);
  if (found == services_.end() || !sandboxes_.get(found->second->team_id, sandbox_id)) {
    return nullptr;
  }
  return found->second;
}

Result<SandboxServicesPtr> Services::get(std::string_view team_id,
                                         std::string_view sandbox_id) const {
  TRY_DO(sandboxes_.get(team_id, sandbox_id));
  if (auto found = find(sandbox_id)) {
    return found;
  }
  return std::make_shared<SandboxServices>(
      SandboxServices{.sandbox_id = std::string{sandbox_id}, .team_id = std::string{team_id}});
}

Task<SandboxServicesPtr> Services::put(std::string team_id, std::string sandbox_id,
                                       std::vector<Service> services) {
  CO_TRY(const auto before, get(team_id, sandbox_id));
  auto next = std::make_shared<SandboxServices>(SandboxServices{.sandbox_id = sandbox_id,
                                                                .team_id = team_id,
                                                                .version = before->version + 1,
                                                                .services = std::move(services)});
  store::Record record = document(next->services);
  record.id = record.owner_id = sandbox_id;
  record.team_id = team_id;
  record.version = next->version;
  record.created_at = record.updated_at = clock_.now();
  CO_TRY_DO(co_await store_.run(
      [&](store::Store& store) { return store.put_record(record, before->version); }));
  keep(next);
  if (changed_) {
    changed_(next);
  }
  co_return SandboxServicesPtr{next};
}

store::Record Services::document(const std::vector<Service>& services) {
  return {.kind = kKind, .body = services_json(services).dump()};
}

std::vector<store::Record> Services::inherit(const std::string& parent_id) {
  const auto parent = find(parent_id);
  return parent && !parent->services.empty() ? std::vector{document(parent->services)}
                                             : std::vector<store::Record>{};
}

void Services::recorded(const store::Sandbox& sandbox, const store::Record& record) {
  if (record.kind != kKind) {
    return;
  }
  auto services = read_record(record);
  CHECK(services.has_value());  // document() wrote it
  const SandboxServicesPtr kept = *std::move(services);
  keep(kept);
  if (changed_ && sandbox.status == SandboxStatus::kRunning) {
    changed_(kept);
  }
}

void Services::keep(SandboxServicesPtr services) {
  if (services_.size() >= tidy_at_) {
    forget_lost();
  }
  services_.insert_or_assign(services->sandbox_id, std::move(services));
}

// Sandboxes go in many ways. Looked for whenever what is kept has doubled.
void Services::forget_lost() {
  std::erase_if(services_, [this](const auto& each) {
    return !sandboxes_.get(each.second->team_id, each.first).has_value();
  });
  tidy_at_ = std::max<std::size_t>(64, 2 * services_.size());
}

}  // namespace atl::control
