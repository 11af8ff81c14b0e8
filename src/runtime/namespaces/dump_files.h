// What is in the directory of a dump:
//
//   images/   criu's files, edited so that they can be restored into namespaces that exist
//   guest     the guest's program as it was
//   shm, tmp  what was in /dev/shm and in a /tmp in memory, when there was something
//   boot_id   what the cell saw as its own
//   facts     the few numbers a restore needs beside them
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace atl::runtime::namespaces {

std::string dumped_guest(const std::string& dump);
std::string dumped_images(const std::string& dump);
std::string dumped_boot_id(const std::string& dump);

struct Clocks {
  std::int64_t monotonic_ns = 0;
  std::int64_t boottime_ns = 0;
};

struct DumpFacts {
  std::uint64_t listener_inode = 0;  // names the guest's listening socket in the images
  std::string boot_id;               // of the host
  Clocks host;                       // what its clocks said
  Clocks offsets;                    // what the cell's were ahead of them
};

Result<Clocks> read_time_offsets(int pid);
Clocks read_host_clocks();
Result<std::string> read_boot_id();

Result<> write_dump_facts(const std::string& dump, const DumpFacts& facts);
Result<DumpFacts> read_dump_facts(const std::string& dump);

// For /proc/self/timens_offsets: after a restart of the host the monotonic clocks go on from where
// they stood at the dump. Empty when the host's own clocks are right.
Result<std::string> time_offsets_of(const std::string& dump);

}  // namespace atl::runtime::namespaces
