// The audit of the network boundary: flows, bytes, why something is (not) let through, and the
// questions that wait for a person.
#pragma once

#include "control/approvals.h"
#include "control/flow_log.h"
#include "control/networks.h"
#include "service/native/routes.h"

namespace atl::service::native {

// What the routes are served from; without `flows` there are none of them.
struct AuditParts {
  control::FlowLog* flows = nullptr;
  control::Approvals* approvals = nullptr;
  control::RulesSource* rules = nullptr;     // null: every sandbox may do everything
  std::vector<egress::Network> opened = {};  // closed classes that the operator opens
};

class FlowRoutes {
 public:
  FlowRoutes(control::Sandboxes& sandboxes, AuditParts parts)
      : sandboxes_(sandboxes), parts_(std::move(parts)) {}
  void add_to(RouteTable& table);

 private:
  Task<> list(NativeExchange& exchange, std::string sandbox_id);
  Task<> follow(NativeExchange& exchange, control::FlowFilter filter);
  Task<> get(NativeExchange& exchange, std::string id);
  Task<> usage(NativeExchange& exchange, std::string sandbox_id);
  Task<> why(NativeExchange& exchange, std::string sandbox_id);

  control::Sandboxes& sandboxes_;
  AuditParts parts_;
};

class ApprovalRoutes {
 public:
  explicit ApprovalRoutes(control::Approvals* approvals) : approvals_(approvals) {}
  void add_to(RouteTable& table);

 private:
  Task<> list(NativeExchange& exchange);
  Task<> follow(NativeExchange& exchange, control::ApprovalQuery query);
  Task<> answer(NativeExchange& exchange, std::string id);

  control::Approvals* approvals_;
};

Json flow_json(const control::KeptFlow& flow);
Json traffic_json(const control::Traffic& traffic);

}  // namespace atl::service::native
