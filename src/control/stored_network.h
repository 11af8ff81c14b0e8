// Network documents as the store has them: with the sealed values that nobody outside may send or
// see.
#pragma once

#include "control/network_document.h"

namespace atl::control {

// What write_network wrote.
Result<NetworkRequest> read_stored_network(const Json& document);
// For whoever may look at the policy: what is sealed is said to be there, and not told. The seal is
// the team's, so somebody else of the team could use it at another domain.
Json show_network(NetworkDocument document);

}  // namespace atl::control
