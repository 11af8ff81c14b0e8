// A cell's own /dev: a detached tmpfs with six device nodes, made outside by real root.
//
// Nobody in a user namespace may make device nodes, and binding the host's would share their
// inodes: a lock, a watch or a timestamp on /dev/null would then be a channel between cells. So
// each cell gets its own, owned by its own root. Its /dev/shm is a directory of it, which is why
// there is more room than nodes need; who fills it pays with the cell's memory.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/fd.h"

namespace atl::runtime::namespaces {

// REQUIRES: CAP_MKNOD, CAP_CHOWN and CAP_SYS_ADMIN.
Result<Fd> make_device_mount(std::uint32_t id_base, std::uint64_t bytes);

}  // namespace atl::runtime::namespaces
