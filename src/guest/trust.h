// The sandbox's own authority, which signs what the proxy shows for hosts whose TLS it opens, made
// known to the programs inside.
//
// Programs look in many places: the system's store in the layout of their distribution, bundles
// that variables name, Java's and NSS's own stores. install_trust() serves them all, and can be
// repeated: what is there already is not touched, and an earlier authority of ours (a fork has its
// parent's files) is taken out. Anchors are kept beside the bundles, because package managers make
// bundles anew from them. Every file is replaced by a whole new one or not at all; a place that is
// a symlink is left alone, since what it leads to is one of the others or somebody's own business.
#pragma once

#include <string>
#include <vector>

#include "guest/file_channel.h"
#include "guest/wire.h"

namespace atl::guest {

// In a worker, as root of the sandbox. An empty certificate takes everything out again.
Result<> install_trust(FileChannel& channel, const TrustRequest& request);

// Adds the variables that point programs at it, as install_trust() left them. What is set stays;
// only JAVA_TOOL_OPTIONS, which is a list, gets one more word.
void add_trust_variables(std::vector<std::string>& env);

inline constexpr const char* kTrustAnchor = "/usr/local/share/ca-certificates/atoll.crt";
inline constexpr const char* kTrustVariables = "/etc/atoll/trust.env";

}  // namespace atl::guest
