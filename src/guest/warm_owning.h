// Processes made of images get memory that is theirs alone.
//
// What is made of an image maps the image's memory file, shared with all others of it until it
// writes. That is what makes it quick and small, and what a dump of the sandbox cannot have: the
// file is sealed and belongs to no filesystem. So before a dump a worker stops each process that
// still maps one, all threads of it, copies what it sees there into anonymous memory, lets it put
// that memory where the file was, and lets it go on. The worker has the identity of the process's
// user, so it may do no more than that user. A process that it cannot stop, or that shares more
// than kMaxOwnedBytes or than there is room for, or that has system call filters of its own, is
// left as it is; the dump is refused then. How it stands meanwhile: warm_stopped.h.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/error.h"

namespace atl::guest {

// In a forked worker; ends the process. Every process of this pid namespace that maps an image.
[[noreturn]] void run_owning_worker();

// When it gives up, by the monotonic clock. Neither ends anything in the middle of a system call.
struct OwningTime {
  std::int64_t stop_by_ms = 0;  // all threads stand still
  std::int64_t own_by_ms = 0;   // looked at between two areas
};
OwningTime owning_time(std::int64_t own_by_ms);

// One process of the caller's user. Answers how many bytes became its own. After an error some may
// have; the process goes on in any case.
Result<std::uint64_t> own_memory(pid_t pid, const OwningTime& time);

}  // namespace atl::guest
