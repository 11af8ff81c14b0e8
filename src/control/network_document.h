// What a request, a template or the operator says about the network: the policy, the bindings of
// credentials, and what is ours (`groups`, and `floor` of a template).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/binding_document.h"
#include "egress/policy.h"

namespace atl::control {

inline constexpr std::size_t kMaxGroups = 16;

struct NetworkDocument {
  egress::Policy policy;
  bool floor = false;  // of a template: no request opens what it closes
  std::vector<std::string> groups;
  std::vector<BindingDocument> bindings;
  bool operator==(const NetworkDocument&) const = default;
};

enum class NetworkPlace : std::uint8_t { kRequest, kTemplate, kOperator };

// As it was sent. What was left out of a replacement stays as it was.
struct NetworkRequest {
  NetworkDocument document;
  bool has_groups = false;
  bool has_bindings = false;
};
using NetworkRequestPtr = std::shared_ptr<const NetworkRequest>;  // of a request and its copies

// `where` is the document's path in the request, for messages.
Result<NetworkRequest> read_network(const Json& document, std::string where, NetworkPlace place);
Json write_network(const NetworkDocument& document);

// The request's document over the template's: rules by name, bindings by ref.
NetworkDocument merge_networks(const NetworkDocument& below, const NetworkDocument& above);
// Every credential that a rule names is bound, in a way that the rule's protocol can use.
Result<> check_credentials(const NetworkDocument& merged, std::string_view where);

}  // namespace atl::control
