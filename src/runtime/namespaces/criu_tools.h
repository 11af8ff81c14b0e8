// Where criu is, and how to start it.
//
// Debian 12 has a criu that is too old for kernels of today, so tools/setup-criu unpacks a newer
// one with its libraries into a directory of its own: ld.so, lib/, criu. It always runs by that
// loader and never touches the host's libraries. The adapter is a small library of ours that criu
// is loaded with for a dump, see criu_adapter/.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

struct CriuTools {
  std::string directory;
  std::string adapter;
};

// Starts it once to see that it runs and is new enough.
MemoryDumps check_criu(const CriuTools& tools);

// Runs criu on the host with these words, with the few capabilities a dump takes. kUnavailable when
// it cannot be started; how it ended otherwise.
struct CriuRun {
  int exit_status = -1;  // -1: it was killed
  bool in_time = true;   // else by us
  std::string output;    // the beginning of it
};
struct CriuLimits {
  int lock_fd = -1;
  std::chrono::seconds time_limit{60};
};
// `lock_fd`, when given, stays open in it until it ends, also when the node is gone by then: a dump
// that is cut short leaves processes with foreign code in them, so nobody ends criu for that.
Result<CriuRun> run_criu(const CriuTools& tools, const std::vector<std::string>& words,
                         CriuLimits limits = {});

}  // namespace atl::runtime::namespaces
