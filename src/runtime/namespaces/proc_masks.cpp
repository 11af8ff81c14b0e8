#include "runtime/namespaces/proc_masks.h"

#include <sys/stat.h>

#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

constexpr const char* kHidden[] = {
    "acpi",        "asound",      "buddyinfo",     "bus",        "cmdline",       "config.gz",
    "diskstats",   "driver",      "dynamic_debug", "fs",         "interrupts",    "iomem",
    "ioports",     "irq",         "kallsyms",      "kcore",      "key-users",     "keys",
    "kmsg",        "kpagecgroup", "kpagecount",    "kpageflags", "latency_stats", "mdstat",
    "modules",     "mtrr",        "pagetypeinfo",  "partitions", "pressure",      "sched_debug",
    "schedstat",   "scsi",        "slabinfo",      "swaps",      "sysrq-trigger", "timer_list",
    "timer_stats", "tty/driver",  "vmallocinfo",   "zoneinfo",
};

// What only the owner may touch is closed already: its owner is the host's root, and no id of a
// cell maps to that. Each mask costs a mount in each cell.
bool is_open_to_others(const struct stat& status) {
  return (status.st_mode & 0007) != 0;
}

}  // namespace

std::vector<ProcMask> find_proc_masks() {
  std::vector<ProcMask> masks;
  for (const char* path : kHidden) {
    struct stat status{};
    if (::lstat(concat("/proc/", path).c_str(), &status) == 0 && is_open_to_others(status)) {
      masks.push_back({concat(kStageRoot, "/proc/", path), S_ISDIR(status.st_mode)});
    }
  }
  return masks;
}

}  // namespace atl::runtime::namespaces
