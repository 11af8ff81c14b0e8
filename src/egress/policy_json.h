// The policy document of the API: {mode, egress{trafficRules, protocolRules, credentialRules,
// proxy, ...}}, read strictly and written back in one form.
//
// The contract's older lists (allowedDomains, deniedCidrs ...) are read into one traffic rule, as
// the contract folds them; they cannot be mixed with trafficRules. What this room does not know of
// (credentialBindings) is left to the caller.
#pragma once

#include "base/json_fields.h"
#include "egress/policy.h"

namespace atl::egress {

inline constexpr std::size_t kMaxRules = 256;            // of each kind
inline constexpr std::size_t kMaxMatchersPerRule = 256;  // of each kind

// `where` is the document's path in the request ("network"), for messages. Every field but
// `other_fields` of the document must be one of the policy's.
Result<Policy> read_policy(const Json& document, std::string where,
                           std::initializer_list<std::string_view> other_fields = {});
Json write_policy(const Policy& policy);

}  // namespace atl::egress
