#include "control/network_policies.h"

#include <algorithm>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/owned_records.h"
#include "control/stored_network.h"

namespace atl::control {
namespace {

constexpr const char* kKind = "network-policy";
constexpr std::string_view kClaimField = "config.network";
constexpr int kMaxWriteTries = 5;

// Credentials and the way out are no restrictions: those that count are in the sandbox's own.
egress::Policy floor_of(egress::Policy policy) {
  policy.credential_rules.clear();
  policy.proxy.reset();
  return policy;
}

bool lacks_placeholder(const BindingDocument& document) {
  return std::ranges::any_of(document.binding.projection.placeholders,
                             [](const auto& one) { return one.placeholder.empty(); });
}

}  // namespace

NetworkPolicies::NetworkPolicies(StoreAccess store, Sandboxes& sandboxes, const WallClock& clock,
                                 const BindableSources* sources)
    : store_(store), sandboxes_(sandboxes), clock_(clock), sources_(sources) {
  sandboxes_.add_documents(*this);
  sandboxes_.changeable_templates().on_changed(this, [this] { all_changed_.set(); });
}

NetworkPolicies::~NetworkPolicies() {
  sandboxes_.changeable_templates().on_changed(this, {});
  sandboxes_.remove_documents(*this);
}

Task<> NetworkPolicies::start() {
  CO_TRY(auto records, co_await load_owned_records(store_, kKind));
  for (auto& record : records) {
    Stored stored{
        .body = std::move(record.body), .version = record.version, .created_at = record.created_at};
    const auto json = Json::parse(stored.body);
    auto read = json ? read_stored_network(*json) : Result<NetworkRequest>{fail(json.error())};
    if (read) {
      stored.document = std::move(read->document);
      CO_TRY_DO(co_await renew(record, stored));
    } else {
      stored.failure = concat("its stored policy cannot be read: ", read.error().message);
      LOG_ERROR("the network of a sandbox is closed", {"sandbox", record.owner_id},
                {"error", read.error()});
    }
    stored_.insert_or_assign(record.owner_id, std::move(stored));
  }
  co_return ok();
}

// What an older key sealed is sealed again, so that the key can go.
Task<> NetworkPolicies::renew(store::Record record, Stored& stored) const {
  bool changed = false;
  for (BindingDocument& document : stored.document.bindings) {
    auto sealed =
        sources_ == nullptr ? std::nullopt : sources_->renewed(record.team_id, document.binding);
    if (sealed) {
      document.binding.sealed = *std::move(sealed);
      changed = true;
    }
  }
  if (!changed) {
    co_return ok();
  }
  stored.body = write_network(stored.document).dump();
  record.body = stored.body;
  record.version = ++stored.version;
  co_return co_await store_.run(
      [record](store::Store& store) { return store.put_record(record, record.version - 1); });
}

const NetworkPolicies::Stored* NetworkPolicies::find(std::string_view id) const {
  const auto found = stored_.find(id);
  return found == stored_.end() ? nullptr : &found->second;
}

EffectiveNetwork NetworkPolicies::effective(const Sandbox& row, const Stored* stored) const {
  EffectiveNetwork out;
  if (operator_policy_) {
    out.floors.push_back({"operator", floor_of(*operator_policy_)});
  }
  const TemplateNetwork defaults = sandboxes_.templates().network(row.template_name, row.team_id);
  if (defaults.failure.empty() && defaults.network != nullptr) {
    out.document = defaults.network->document;
    if (out.document.floor) {
      out.floors.push_back({"template", floor_of(out.document.policy)});
    }
  }
  out.failure = stored != nullptr && !stored->failure.empty() ? stored->failure : defaults.failure;
  if (stored != nullptr && out.failure.empty()) {
    out.document = merge_networks(out.document, stored->document);
  }
  out.document.floor = false;
  // Of a template that changed after the claim: nobody in the sandbox knows a placeholder for it.
  std::erase_if(out.document.bindings, lacks_placeholder);
  if (operator_policy_ && operator_policy_->proxy) {
    out.document.policy.proxy = operator_policy_->proxy;
  }
  if (!out.failure.empty()) {
    out.document = {.policy = egress::closed_policy()};
  }
  return out;
}

Task<egress::RulesPtr> NetworkPolicies::rules(Sandbox sandbox) {
  co_return rules_now(sandbox);
}

egress::RulesPtr NetworkPolicies::rules_now(const Sandbox& row) const {
  EffectiveNetwork network = effective(row, find(row.id));
  auto rules = std::make_shared<egress::SandboxRules>();
  rules->sandbox_id = row.id;
  rules->team_id = row.team_id;
  rules->name = row.name;
  for (auto& floor : network.floors) {
    rules->layers.push_back({std::move(floor.origin), std::move(floor.policy)});
  }
  rules->layers.push_back({"sandbox", std::move(network.document.policy)});
  for (auto& document : network.document.bindings) {
    rules->bindings.push_back(std::move(document.binding));
  }
  rules->groups = std::move(network.document.groups);
  return rules;
}

Result<EffectiveNetwork> NetworkPolicies::get(std::string_view team_id, std::string_view id) const {
  TRY(const Sandbox row, sandboxes_.get(team_id, id));
  return effective(row, find(id));
}

// --- changing --------------------------------------------------------------------------------

Result<> NetworkPolicies::check_bindings(const Sandbox& row, const NetworkDocument& document,
                                         std::string_view where) const {
  for (std::size_t i = 0; i < document.bindings.size(); ++i) {
    const egress::Binding& binding = document.bindings[i].binding;
    auto good = sources_ == nullptr
                    ? Result<>{fail(Code::kInvalidArgument, "this server has no credentials")}
                    : sources_->check_binding(row.team_id, binding);
    if (!good) {
      return fail(Code::kInvalidArgument, concat("field \"", where, ".credentialBindings[", i,
                                                 "].sourceRef\": ", good.error().message));
    }
  }
  return {};
}

// What the sandbox has after the request, checked together with what is below it.
Result<NetworkDocument> NetworkPolicies::next_document(const Sandbox& row,
                                                       const NetworkRequest& request,
                                                       std::string_view where) const {
  NetworkDocument next = request.document;
  const Stored* const before = find(row.id);
  if (before != nullptr && before->failure.empty()) {
    next.bindings = request.has_bindings ? next.bindings : before->document.bindings;
    next.groups = request.has_groups ? next.groups : before->document.groups;
  }
  if (request.has_bindings) {
    TRY_DO(check_bindings(row, next, where));
  }
  complete(row, next);
  const Stored candidate{.document = next};
  const EffectiveNetwork merged = effective(row, &candidate);
  if (merged.failure.empty()) {
    TRY_DO(check_credentials(merged.document, where));
  }
  return next;
}

Result<> NetworkPolicies::check(std::string_view team_id, std::string_view id,
                                const NetworkRequest& request, std::string_view where) const {
  TRY(const Sandbox row, sandboxes_.get(team_id, id));
  TRY_DO(next_document(row, request, where));
  return {};
}

// A placeholder that was made before stays: the sandbox knows it.
void NetworkPolicies::complete(const Sandbox& row, NetworkDocument& document) const {
  if (const Stored* const before = find(row.id); before != nullptr) {
    for (BindingDocument& binding : document.bindings) {
      for (const BindingDocument& old : before->document.bindings) {
        auto& now = binding.binding.projection.placeholders;
        const auto& then = old.binding.projection.placeholders;
        if (old.binding.ref == binding.binding.ref && now.size() == then.size()) {
          for (std::size_t i = 0; i < now.size(); ++i) {
            if (now[i].placeholder.empty() && binding.extras[i] == old.extras[i]) {
              now[i].placeholder = then[i].placeholder;
            }
          }
        }
      }
    }
  }
  complete_placeholders(document.bindings, [&](const egress::Binding& binding,
                                               std::string_view text) {
    return sources_ == nullptr ? std::nullopt : sources_->value_length(row.team_id, binding, text);
  });
}

store::Record NetworkPolicies::record_of(const Sandbox& row, const Stored& stored) {
  return {.kind = kKind,
          .id = row.id,
          .team_id = row.team_id,
          .owner_id = row.id,
          .version = stored.version,
          .body = stored.body,
          .created_at = stored.created_at,
          .updated_at = stored.created_at};
}

Task<EffectiveNetwork> NetworkPolicies::replace(std::string team_id, std::string id,
                                                NetworkRequestPtr request, std::string where) {
  return shielded(
      replace_now(std::move(team_id), std::move(id), std::move(request), std::move(where)));
}

Task<EffectiveNetwork> NetworkPolicies::replace_now(std::string team_id, std::string id,
                                                    NetworkRequestPtr request, std::string where) {
  for (int tries = 1;; ++tries) {
    CO_TRY(const Sandbox row, sandboxes_.get(team_id, id));
    CO_TRY(NetworkDocument next, next_document(row, *request, where));
    auto written = co_await write(row, std::move(next));
    if (written) {
      co_return get(team_id, id);
    }
    // Somebody else was first; their document is in memory by now.
    if (written.error().reason != "changed" || tries == kMaxWriteTries) {
      co_return fail(std::move(written).error().note("recording the network policy"));
    }
  }
}

Task<> NetworkPolicies::write(const Sandbox& row, NetworkDocument document) {
  const Stored* const before = find(row.id);
  const std::int64_t expected = before == nullptr ? 0 : before->version;
  Stored next{.document = std::move(document),
              .version = expected + 1,
              .created_at = before == nullptr ? clock_.now() : before->created_at};
  next.body = write_network(next.document).dump();
  store::Record record = record_of(row, next);
  record.updated_at = clock_.now();
  CO_TRY_DO(
      co_await store_.run([&](store::Store& store) { return store.put_record(record, expected); }));
  ATOLL_FAULT_POINT("control.network.recorded");
  if (!sandboxes_.get(row.team_id, row.id)) {
    // Deleted meanwhile, before the record was there to go with it.
    CO_TRY_DO(co_await store_.run(
        [&](store::Store& store) { return store.remove_record(kKind, row.id); }));
    co_return no_such_sandbox(row.id);
  }
  stored_.insert_or_assign(row.id, std::move(next));
  LOG_INFO("network policy changed", {"sandbox", row.id}, {"version", expected + 1});
  if (networks_ != nullptr) {
    CO_TRY_DO(co_await networks_->refresh(row.id));
  }
  co_return ok();
}

// --- claims ----------------------------------------------------------------------------------

// A fork is under the policy of its parent, but credentials are given anew: what the policy itself
// holds is part of it.
Result<NetworkPolicies::Stored> NetworkPolicies::first_document(
    const Sandbox& row, const ClaimRequest& request, const NetworkDocument& below) const {
  Stored first;
  const Stored* const parent = parent_document(request);
  if (request.network != nullptr) {
    first.document = request.network->document;
    if (!request.network->has_groups && parent != nullptr) {
      first.document.groups = parent->document.groups;
    }
    TRY_DO(check_bindings(row, first.document, kClaimField));
  } else if (parent != nullptr) {
    first = *parent;
    std::erase_if(first.document.bindings, [](const BindingDocument& document) {
      return !document.binding.has_own_values();
    });
  } else {
    // Only the template speaks: its rules, and bindings of which this sandbox needs its own.
    first.document.policy = below.policy;
  }
  first.version = 1;
  first.created_at = row.created_at;
  for (const BindingDocument& binding : below.bindings) {
    const bool replaced = std::ranges::any_of(first.document.bindings, [&](const auto& own) {
      return own.binding.ref == binding.binding.ref;
    });
    if (!replaced && lacks_placeholder(binding)) {
      first.document.bindings.push_back(binding);
    }
  }
  return first;
}

const NetworkPolicies::Stored* NetworkPolicies::parent_document(const ClaimRequest& request) const {
  const bool is_fork = request.origin && request.origin->descent.cause == "fork";
  return is_fork ? find(request.origin->parent_id) : nullptr;
}

Result<std::vector<store::Record>> NetworkPolicies::begin(const Sandbox& row,
                                                          const ClaimRequest& request) {
  const TemplateNetwork defaults = sandboxes_.templates().network(row.template_name, row.team_id);
  const NetworkDocument below =
      defaults.network != nullptr ? defaults.network->document : NetworkDocument{};
  TRY_DO(check_bindings(row, below, "spec.network"));
  const bool own = request.network != nullptr || parent_document(request) != nullptr ||
                   std::ranges::any_of(below.bindings, lacks_placeholder);
  if (!own) {
    return std::vector<store::Record>{};
  }
  TRY(Stored first, first_document(row, request, below));
  if (first.failure.empty()) {
    complete(row, first.document);
    const EffectiveNetwork merged = effective(row, &first);
    if (request.network != nullptr && merged.failure.empty()) {
      TRY_DO(check_credentials(merged.document, kClaimField));
    }
    first.body = write_network(first.document).dump();
  }
  std::vector<store::Record> records{record_of(row, first)};
  stored_.insert_or_assign(row.id, std::move(first));
  return records;
}

StringMap NetworkPolicies::environment(const Sandbox& row) const {
  return placeholder_environment(effective(row, find(row.id)).document.bindings);
}

bool NetworkPolicies::is_bound(std::string_view team_id, std::string_view source_ref) const {
  for (const Sandbox& row : sandboxes_.all()) {
    if (row.team_id != team_id) {
      continue;
    }
    for (const auto& document : effective(row, find(row.id)).document.bindings) {
      if (document.binding.source_ref == source_ref) {
        return true;
      }
    }
  }
  return false;
}

// --- floors ----------------------------------------------------------------------------------

void NetworkPolicies::set_operator_policy(std::optional<egress::Policy> policy) {
  operator_policy_ = std::move(policy);
  all_changed_.set();
}

Task<> NetworkPolicies::run() {
  for (;;) {
    CO_TRY_DO(co_await all_changed_.wait());
    all_changed_.clear();
    if (networks_ != nullptr) {
      CO_TRY_DO(co_await networks_->refresh_all());
    }
  }
}

}  // namespace atl::control
