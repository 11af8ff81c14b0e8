// What is in a cell's /dev/shm, and in a /tmp that is in memory, to a file and back: memory that
// belongs to no process.
//
// Both run as the cell's root in the cell's namespaces (cell_visit.h): it is the cell's own tree,
// and the file is as hostile as what it was made from. Directories, files with their holes, links
// and fifos; sockets are made again by who had them. Both return 0 or an errno.
#pragma once

#include <cstdint>

namespace atl::runtime::namespaces {

// What of a cell's tree is in memory, where it is mounted, and its file in a dump.
struct MemoryTree {
  const char* directory;
  const char* file;
};
inline constexpr MemoryTree kMemoryTrees[] = {{"/dev/shm", "shm"}, {"/tmp", "tmp"}};

// EFBIG when the files have more than `room_bytes`. What is mounted within stays out.
int save_tree(const char* directory, int file, std::uint64_t room_bytes = UINT64_MAX);
// Nothing when it is not in memory or has no entries; never more than the kernel says that its file
// system holds, of which it may be a part.
int save_memory_tree(const char* directory, int file);
int load_tree(const char* directory, int file);

}  // namespace atl::runtime::namespaces
