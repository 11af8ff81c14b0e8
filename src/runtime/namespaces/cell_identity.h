// Who the cell is, where its programs look for it.
//
// The host name is the kernel's; /etc/hostname, /etc/hosts and /etc/machine-id are files of the
// cell's own disk, so that its owner may change them and keeps the change. They are written when
// the disk begins to be this cell's: a fresh one, or one that began as another's. Then also what
// nobody may share is removed: ssh host keys and saved seeds of random numbers. Which cell a disk
// belongs to is an attribute of the upper directory, out of the cell's reach, which snapshots take
// along. The boot id is a read-only file over the kernel's, another one for each start.
#pragma once

#include <string>

#include "base/error.h"
#include "runtime/namespaces/cell_plan.h"

namespace atl::runtime::namespaces {

// The parent's half.
bool disk_belongs_to(const std::string& upper_dir, const std::string& id);
Result<> mark_disk(const std::string& upper_dir, const std::string& id);
// A random UUID and a line end.
std::string make_boot_id();

// The child's half, after the change of root, so no link in the image can lead out of it. Returns
// 0 or an errno. Async-signal-safe.
int write_identity(const CellPlan& plan);
// Writes a file that is not there; an image without its directory is its author's choice.
int write_missing_file(const char* path, const char* content);

}  // namespace atl::runtime::namespaces
