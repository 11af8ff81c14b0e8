#include "runtime/namespaces/proc_masks.h"

#include <sys/stat.h>

#include <string>

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

}  // namespace

std::vector<ProcMask> find_proc_masks() {
  std::vector<ProcMask> masks;
  for (const char* path : kHidden) {
    struct stat status{};
    if (::lstat(std::string{"/proc/"}.append(path).c_str(), &status) == 0) {
      masks.push_back({path, S_ISDIR(status.st_mode)});
    }
  }
  return masks;
}

}  // namespace atl::runtime::namespaces
