// ssh host keys of a sandbox that has an ssh server and none of its own yet: made in the
// background. A fork loses those of its parent before it starts.
#pragma once

namespace atl::guest {

void make_missing_host_keys();

}  // namespace atl::guest
