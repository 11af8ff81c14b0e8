// A descriptor that a stranger opened and gave us: may we read it?
//
// Only a regular file on a filesystem that keeps its content on a disk or in memory, opened for
// reading alone. Everything else can wait for somebody for ever (a FIFO, a terminal, a filesystem
// that a process serves), can be more than it says (/proc), or can do things when it is read. The
// check itself may have to wait for a disk: not on a loop's thread.
#pragma once

#include "base/error.h"

namespace atl {

Result<> check_plain_file(int fd);

}  // namespace atl
