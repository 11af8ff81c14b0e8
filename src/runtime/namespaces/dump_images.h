// Edits criu's images so that they fit a cell that is made first and filled then.
//
// criu would make all namespaces of a dumped tree itself. A cell's are made by the runtime, as
// always, with everything that belongs to them; criu shall make the pid namespace and the
// processes. So the images say that all other namespaces are the ones criu runs in, and name
// neither cgroups nor mounts: tasks are born in criu's cgroups, files are found from its root.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace atl::runtime::namespaces {

// kFailedPrecondition when the tree holds something that would come back wrong without a word.
// Returns the size of the images.
Result<std::uint64_t> prepare_images(const std::string& directory);

}  // namespace atl::runtime::namespaces
