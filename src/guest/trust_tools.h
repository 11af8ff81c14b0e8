// Stores that only their own tool can write: those of NSS, which Chromium uses. Where the tool is
// not there, neither is what would use its store.
#pragma once

#include <string>
#include <vector>

namespace atl::guest {

// In the databases of these users, which are made where they are not there. Without an anchor what
// was there is taken out.
void trust_in_nss(const std::string& anchor, const std::vector<std::string>& users, bool had_one);

}  // namespace atl::guest
