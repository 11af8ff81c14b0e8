// atoll-guest: PID 1 of a sandbox. The runtime passes the listening socket as descriptor 3.
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "guest/agent.h"
#include "guest/host_keys.h"

namespace {

constexpr int kListenerFd = 3;

// Idle sandboxes are many: give memory back early, keep one arena.
void make_heap_small() {
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  ::mallopt(M_TRIM_THRESHOLD, 64 * 1024);
  ::mallopt(M_TOP_PAD, 0);
}

}  // namespace

// The cell that serves the files of a volume has the volume as its root: there is nothing in it
// that may be executed.
int main(int argument_count, char** arguments) {
  const bool only_files = argument_count > 1 && std::string_view{arguments[1]} == "only-files";

  // Executed as /dev/init, whose name would be ours otherwise.
  ::prctl(PR_SET_NAME, "atoll-guest");
  make_heap_small();
  if (!only_files) {
    atl::guest::make_missing_host_keys();
  }
  auto agent = atl::guest::Agent::create(atl::Fd{kListenerFd});
  if (!agent) {
    std::fprintf(stderr, "atoll-guest: %s\n", agent.error().message.c_str());
    return 1;
  }
  const auto ended = (*agent)->run();
  std::fprintf(stderr, "atoll-guest: %s\n", ended.error().message.c_str());
  return 1;
}
