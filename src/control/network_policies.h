// The network policy of every sandbox: the operator's floor, the template's, the request's.
//
// The request's document is a record of the sandbox, in memory and in the store; the template's is
// in the template's row, and the operator's in a file. Rules for the proxy are made of all three
// whenever one changes. A document that ought to be there and cannot be read closes the network of
// its sandboxes, and says so. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "control/network_document.h"
#include "control/networks.h"
#include "control/sandbox_documents.h"
#include "control/sandboxes.h"
#include "egress/boundary.h"

namespace atl::control {

// The credential sources of teams, as far as bindings need them.
class BindableSources {
 public:
  virtual ~BindableSources() = default;
  // kInvalidArgument (without the name of the field) when the team has no such source, or one that
  // cannot be used like this.
  virtual Result<> check_binding(std::string_view team_id,
                                 const egress::Binding& binding) const = 0;
  virtual std::optional<std::size_t> value_length(std::string_view team_id,
                                                  const egress::Binding& binding,
                                                  std::string_view value_template) const = 0;
  // The binding's own values sealed with the newest key; nothing when they are, or cannot be
  // opened.
  virtual std::optional<std::string> renewed(std::string_view team_id,
                                             const egress::Binding& binding) const = 0;
};

// What a sandbox is under.
struct EffectiveNetwork {
  struct Floor {
    std::string origin;  // "operator", "template"
    egress::Policy policy;
  };
  NetworkDocument document;  // template and request merged
  std::vector<Floor> floors;
  std::string failure;  // why everything is closed; empty: it is not
};

class NetworkPolicies final : public SandboxDocuments, public RulesSource {
 public:
  // Without sources nothing can be bound. All outlive this.
  NetworkPolicies(StoreAccess store, Sandboxes& sandboxes, const WallClock& clock,
                  const BindableSources* sources);
  ~NetworkPolicies() override;
  NetworkPolicies(const NetworkPolicies&) = delete;
  NetworkPolicies& operator=(const NetworkPolicies&) = delete;

  // Reads the records. REQUIRES: before the sandboxes start.
  Task<> start();

  // Never null: what cannot be read is closed.
  egress::RulesPtr rules_now(const Sandbox& row) const;
  Task<egress::RulesPtr> rules(Sandbox sandbox) override;
  // kNotFound also for a sandbox of another team.
  Result<EffectiveNetwork> get(std::string_view team_id, std::string_view id) const;
  // Whether replace() would take it.
  Result<> check(std::string_view team_id, std::string_view id, const NetworkRequest& request,
                 std::string_view where) const;
  // Takes the place of the request's document. Durable when it returns, and in force.
  Task<EffectiveNetwork> replace(std::string team_id, std::string id, NetworkRequestPtr request,
                                 std::string where);
  std::vector<std::string> groups_of(const Sandbox& row) const {
    return effective(row, find(row.id)).document.groups;
  }
  // Whether a sandbox of the team binds it.
  bool is_bound(std::string_view team_id, std::string_view source_ref) const;

  // The operator's floor; none: there is no such.
  void set_operator_policy(std::optional<egress::Policy> policy);
  // Who puts changed rules in force: Networks, which outlives this or is taken away with {}.
  void on_refresh(Networks* networks) { networks_ = networks; }
  // Puts changes of templates and of the operator's policy in force, until cancelled.
  Task<> run();

  // SandboxDocuments.
  Result<std::vector<store::Record>> begin(const Sandbox& row,
                                           const ClaimRequest& request) override;
  void forget(const std::string& id) override { stored_.erase(id); }
  StringMap environment(const Sandbox& row) const override;

 private:
  struct Stored {
    NetworkDocument document;
    std::string body;     // as the store has it
    std::string failure;  // why it cannot be read
    std::int64_t version = 1;
    UnixMillis created_at = 0;
  };

  EffectiveNetwork effective(const Sandbox& row, const Stored* stored) const;
  const Stored* find(std::string_view id) const;
  Result<> check_bindings(const Sandbox& row, const NetworkDocument& document,
                          std::string_view where) const;
  Result<NetworkDocument> next_document(const Sandbox& row, const NetworkRequest& request,
                                        std::string_view where) const;
  void complete(const Sandbox& row, NetworkDocument& document) const;
  const Stored* parent_document(const ClaimRequest& request) const;
  Result<Stored> first_document(const Sandbox& row, const ClaimRequest& request,
                                const NetworkDocument& below) const;
  Task<EffectiveNetwork> replace_now(std::string team_id, std::string id, NetworkRequestPtr request,
                                     std::string where);
  Task<> write(const Sandbox& row, NetworkDocument document);
  static store::Record record_of(const Sandbox& row, const Stored& stored);
  Task<> renew(store::Record record, Stored& stored) const;

  StoreAccess store_;
  Sandboxes& sandboxes_;
  const WallClock& clock_;
  const BindableSources* sources_;
  std::optional<egress::Policy> operator_policy_;
  std::map<std::string, Stored, std::less<>> stored_;  // of those that were given one
  Networks* networks_ = nullptr;
  Event all_changed_;
};

}  // namespace atl::control
