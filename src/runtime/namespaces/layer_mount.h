// Detached, id-mapped mounts of layers and uppers: the parent's gift to a new cell.
//
// On disk every layer belongs to ids 0..65535. Through such a mount the same files belong to the
// cell's own range of host ids, so nothing is ever chowned and a layer can serve any number of
// cells at once. Made outside by real root; attached and overlaid inside by the cell's root.
// Set-user-id bits stay effective (sudo) unless told otherwise, device nodes never.
#pragma once

#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace atl::runtime::namespaces {

struct LayerMountOptions {
  int user_namespace_fd = -1;
  bool read_only = true;
  bool honours_set_user_id = true;
  bool executable = true;
};
Result<Fd> make_layer_mount(const std::string& directory, const LayerMountOptions& options);

}  // namespace atl::runtime::namespaces
