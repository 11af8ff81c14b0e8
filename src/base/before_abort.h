// What a broken invariant still does before it ends the process.
#pragma once

#include <atomic>

namespace atl {

// Nothing unless set; must be fit to be called on any thread in any state.
extern constinit std::atomic<void (*)()> before_abort;

}  // namespace atl
